;; What takes a model's time, in 32-bit floats, for products.js. "multiply" is a product of matrices: C = A·B, or C += A·B.
;; "gate" is what SwiGLU does with two of them, "soften" is softmax, "norm" is RMSNorm, and "turn" is RoPE. "…Back" are their
;; gradients.
;;
;; The columns of B and C are divided into strips of 16 (four vectors of four numbers each). Two rows of A meet one strip at a
;; time, so that eight sums stay in registers while `inner` rows of B pass by; a last single row has four sums. A strip is short
;; enough to stay in the fastest cache while all rows of A meet it. Each vector of B is used up before the next is loaded: with
;; all four in variables of their own, Firefox runs out of registers, and a product takes three times as long.
;;
;; Every address and every step from one row, column or strip to the next is in bytes, so rows may be far apart. A step from
;; column to column of A other than four bytes reads a matrix along its columns: its transpose. What lies behind the last column
;; of B, up to a whole strip, must be numbers (zeros) as well.
;;
;; `make kernel` assembles this text and writes kernel.js. A test compares them. It also writes a second kernel, in which each
;; (f32x4.add a (f32x4.mul b c)) of variables, constants and what is loaded is a single instruction.
(module
  (import "page" "memory" (memory 0))
  (func (export "multiply")
    (param $c i32) (param $cRow i32)
    (param $a i32) (param $aRow i32) (param $aStep i32)
    (param $b i32) (param $bRow i32) (param $bStrip i32)
    (param $rows i32) (param $inner i32) (param $strips i32)
    (param $keep i32) ;; −1 to add to what is in C (all bits of it count), 0 to overwrite it (none does)
    (local $mask v128)
    (local $left i32) ;; rows of A that are still to come
    (local $end i32) ;; where the rows of B end in a strip
    (local $from i32) (local $to i32) ;; the first of the two rows of A and C
    (local $p i32) (local $q i32) (local $r i32) ;; where we are in both rows of A and in B
    (local $x v128) (local $y v128) (local $z v128)
    (local $s0 v128) (local $s1 v128) (local $s2 v128) (local $s3 v128)
    (local $t0 v128) (local $t1 v128) (local $t2 v128) (local $t3 v128)

    (local.set $mask (i32x4.splat (local.get $keep)))
    (block $done (loop $strip
      (br_if $done (i32.eqz (local.get $strips)))
      (local.set $left (local.get $rows))
      (local.set $end (i32.add (local.get $b) (i32.mul (local.get $inner) (local.get $bRow))))
      (local.set $from (local.get $a))
      (local.set $to (local.get $c))

      (block $single (loop $pair
        (br_if $single (i32.lt_s (local.get $left) (i32.const 2)))
        (local.set $q (i32.add (local.get $to) (local.get $cRow)))
        (local.set $s0 (v128.and (local.get $mask) (v128.load (local.get $to))))
        (local.set $s1 (v128.and (local.get $mask) (v128.load offset=16 (local.get $to))))
        (local.set $s2 (v128.and (local.get $mask) (v128.load offset=32 (local.get $to))))
        (local.set $s3 (v128.and (local.get $mask) (v128.load offset=48 (local.get $to))))
        (local.set $t0 (v128.and (local.get $mask) (v128.load (local.get $q))))
        (local.set $t1 (v128.and (local.get $mask) (v128.load offset=16 (local.get $q))))
        (local.set $t2 (v128.and (local.get $mask) (v128.load offset=32 (local.get $q))))
        (local.set $t3 (v128.and (local.get $mask) (v128.load offset=48 (local.get $q))))
        (local.set $p (local.get $from))
        (local.set $q (i32.add (local.get $from) (local.get $aRow)))
        (local.set $r (local.get $b))
        (if (local.get $inner) (then (loop $next
          (local.set $x (v128.load32_splat (local.get $p)))
          (local.set $y (v128.load32_splat (local.get $q)))
          (local.set $z (v128.load (local.get $r)))
          (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul (local.get $z) (local.get $x))))
          (local.set $t0 (f32x4.add (local.get $t0) (f32x4.mul (local.get $z) (local.get $y))))
          (local.set $z (v128.load offset=16 (local.get $r)))
          (local.set $s1 (f32x4.add (local.get $s1) (f32x4.mul (local.get $z) (local.get $x))))
          (local.set $t1 (f32x4.add (local.get $t1) (f32x4.mul (local.get $z) (local.get $y))))
          (local.set $z (v128.load offset=32 (local.get $r)))
          (local.set $s2 (f32x4.add (local.get $s2) (f32x4.mul (local.get $z) (local.get $x))))
          (local.set $t2 (f32x4.add (local.get $t2) (f32x4.mul (local.get $z) (local.get $y))))
          (local.set $z (v128.load offset=48 (local.get $r)))
          (local.set $s3 (f32x4.add (local.get $s3) (f32x4.mul (local.get $z) (local.get $x))))
          (local.set $t3 (f32x4.add (local.get $t3) (f32x4.mul (local.get $z) (local.get $y))))
          (local.set $p (i32.add (local.get $p) (local.get $aStep)))
          (local.set $q (i32.add (local.get $q) (local.get $aStep)))
          (br_if $next (i32.ne (local.tee $r (i32.add (local.get $r) (local.get $bRow))) (local.get $end))))))
        (local.set $q (i32.add (local.get $to) (local.get $cRow)))
        (v128.store (local.get $to) (local.get $s0))
        (v128.store offset=16 (local.get $to) (local.get $s1))
        (v128.store offset=32 (local.get $to) (local.get $s2))
        (v128.store offset=48 (local.get $to) (local.get $s3))
        (v128.store (local.get $q) (local.get $t0))
        (v128.store offset=16 (local.get $q) (local.get $t1))
        (v128.store offset=32 (local.get $q) (local.get $t2))
        (v128.store offset=48 (local.get $q) (local.get $t3))
        (local.set $from (i32.add (local.get $from) (i32.shl (local.get $aRow) (i32.const 1))))
        (local.set $to (i32.add (local.get $to) (i32.shl (local.get $cRow) (i32.const 1))))
        (local.set $left (i32.sub (local.get $left) (i32.const 2)))
        (br $pair)))

      (if (local.get $left) (then
        (local.set $s0 (v128.and (local.get $mask) (v128.load (local.get $to))))
        (local.set $s1 (v128.and (local.get $mask) (v128.load offset=16 (local.get $to))))
        (local.set $s2 (v128.and (local.get $mask) (v128.load offset=32 (local.get $to))))
        (local.set $s3 (v128.and (local.get $mask) (v128.load offset=48 (local.get $to))))
        (local.set $r (local.get $b))
        (if (local.get $inner) (then (loop $next
          (local.set $x (v128.load32_splat (local.get $from)))
          (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul (local.get $x) (v128.load (local.get $r)))))
          (local.set $s1 (f32x4.add (local.get $s1) (f32x4.mul (local.get $x) (v128.load offset=16 (local.get $r)))))
          (local.set $s2 (f32x4.add (local.get $s2) (f32x4.mul (local.get $x) (v128.load offset=32 (local.get $r)))))
          (local.set $s3 (f32x4.add (local.get $s3) (f32x4.mul (local.get $x) (v128.load offset=48 (local.get $r)))))
          (local.set $from (i32.add (local.get $from) (local.get $aStep)))
          (br_if $next (i32.ne (local.tee $r (i32.add (local.get $r) (local.get $bRow))) (local.get $end))))))
        (v128.store (local.get $to) (local.get $s0))
        (v128.store offset=16 (local.get $to) (local.get $s1))
        (v128.store offset=32 (local.get $to) (local.get $s2))
        (v128.store offset=48 (local.get $to) (local.get $s3))))

      (local.set $c (i32.add (local.get $c) (i32.const 64)))
      (local.set $b (i32.add (local.get $b) (local.get $bStrip)))
      (local.set $strips (i32.sub (local.get $strips) (i32.const 1)))
      (br $strip))))

  ;; e^x of four numbers. With n the whole number next to x / log 2, it is 2^n times a Taylor polynomial. Beyond ±87, where n
  ;; would not fit a float's exponent, the last value stands for all others. NaN stays NaN.
  (func $exp (param $x v128) (result v128)
    (local $n v128) (local $scale v128) (local $y v128)
    (local.set $x
      (f32x4.pmax (f32x4.pmin (local.get $x) (v128.const f32x4 87 87 87 87)) (v128.const f32x4 -87 -87 -87 -87)))
    ;; A float of this size, 1.5·2^23, has no digits behind the point, and n is in its last bits.
    (local.set $y (f32x4.add (v128.const f32x4 12582912 12582912 12582912 12582912)
      (f32x4.mul (local.get $x) (v128.const f32x4 1.44269504 1.44269504 1.44269504 1.44269504))))
    (local.set $scale (i32x4.shl (i32x4.add (local.get $y) (v128.const i32x4 127 127 127 127)) (i32.const 23)))
    (local.set $n (f32x4.sub (local.get $y) (v128.const f32x4 12582912 12582912 12582912 12582912)))
    ;; log 2 in two parts, of which the first has few digits, so that its product with n is exact
    (local.set $x (f32x4.add (local.get $x)
      (f32x4.mul (local.get $n) (v128.const f32x4 -0.693359375 -0.693359375 -0.693359375 -0.693359375))))
    (local.set $x (f32x4.add (local.get $x)
      (f32x4.mul (local.get $n) (v128.const f32x4 2.12194440e-4 2.12194440e-4 2.12194440e-4 2.12194440e-4))))
    (local.set $y (v128.const f32x4 1.38888889e-3 1.38888889e-3 1.38888889e-3 1.38888889e-3))
    (local.set $y (f32x4.add (v128.const f32x4 8.33333333e-3 8.33333333e-3 8.33333333e-3 8.33333333e-3) (f32x4.mul (local.get $x) (local.get $y))))
    (local.set $y (f32x4.add (v128.const f32x4 4.16666667e-2 4.16666667e-2 4.16666667e-2 4.16666667e-2) (f32x4.mul (local.get $x) (local.get $y))))
    (local.set $y (f32x4.add (v128.const f32x4 1.66666667e-1 1.66666667e-1 1.66666667e-1 1.66666667e-1) (f32x4.mul (local.get $x) (local.get $y))))
    (local.set $y (f32x4.add (v128.const f32x4 0.5 0.5 0.5 0.5) (f32x4.mul (local.get $x) (local.get $y))))
    (local.set $y (f32x4.add (v128.const f32x4 1 1 1 1) (f32x4.mul (local.get $x) (local.get $y))))
    (local.set $y (f32x4.add (v128.const f32x4 1 1 1 1) (f32x4.mul (local.get $x) (local.get $y))))
    (f32x4.mul (local.get $y) (local.get $scale)))

  ;; up = up · gate · σ(gate), for `count` numbers, four at a time.
  (func (export "gate") (param $up i32) (param $gate i32) (param $count i32)
    (local $x v128)
    (block $done (loop $next
      (br_if $done (i32.le_s (local.get $count) (i32.const 0)))
      (local.set $x (v128.load (local.get $gate)))
      (v128.store (local.get $up) (f32x4.div
        (f32x4.mul (v128.load (local.get $up)) (local.get $x))
        (f32x4.add (v128.const f32x4 1 1 1 1) (call $exp (f32x4.neg (local.get $x))))))
      (local.set $up (i32.add (local.get $up) (i32.const 16)))
      (local.set $gate (i32.add (local.get $gate) (i32.const 16)))
      (local.set $count (i32.sub (local.get $count) (i32.const 4)))
      (br $next))))

  ;; The same backward: from the gradient of up · gate · σ(gate) to those of gate and up, for `count` numbers of each.
  (func (export "gateBack")
    (param $grad i32) (param $toGate i32) (param $toUp i32) (param $gate i32) (param $up i32) (param $count i32)
    (local $x v128) (local $share v128) (local $g v128)
    (block $done (loop $next
      (br_if $done (i32.le_s (local.get $count) (i32.const 0)))
      (local.set $x (v128.load (local.get $gate)))
      (local.set $share (f32x4.div (v128.const f32x4 1 1 1 1)
        (f32x4.add (v128.const f32x4 1 1 1 1) (call $exp (f32x4.neg (local.get $x))))))
      (local.set $g (f32x4.mul (v128.load (local.get $grad)) (local.get $share)))
      (v128.store (local.get $toUp) (f32x4.mul (local.get $g) (local.get $x)))
      (v128.store (local.get $toGate) (f32x4.mul
        (f32x4.mul (local.get $g) (v128.load (local.get $up)))
        (f32x4.add (v128.const f32x4 1 1 1 1)
          (f32x4.mul (local.get $x) (f32x4.sub (v128.const f32x4 1 1 1 1) (local.get $share))))))
      (local.set $grad (i32.add (local.get $grad) (i32.const 16)))
      (local.set $toGate (i32.add (local.get $toGate) (i32.const 16)))
      (local.set $toUp (i32.add (local.get $toUp) (i32.const 16)))
      (local.set $gate (i32.add (local.get $gate) (i32.const 16)))
      (local.set $up (i32.add (local.get $up) (i32.const 16)))
      (local.set $count (i32.sub (local.get $count) (i32.const 4)))
      (br $next))))

  ;; Softmax of all numbers from `at` to `end`, in their place, four at a time. First, all lanes of `max` become the largest
  ;; number; then the exponentials are stored, and all lanes of `sum` become their sum; then they are divided by it.
  (func (export "soften") (param $at i32) (param $end i32)
    (local $x v128) (local $max v128) (local $sum v128) (local $i i32)
    (if (i32.ge_u (local.get $at) (local.get $end)) (then (return)))
    (local.set $max (v128.load (local.get $at)))
    (local.set $i (local.get $at))
    (loop $next
      (local.set $max (f32x4.pmax (local.get $max) (v128.load (local.get $i))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
    (local.set $max (f32x4.pmax (local.get $max)
      (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $max) (local.get $max))))
    (local.set $max (f32x4.pmax (local.get $max)
      (i8x16.shuffle 4 5 6 7 0 1 2 3 12 13 14 15 8 9 10 11 (local.get $max) (local.get $max))))
    (local.set $i (local.get $at))
    (loop $next
      (local.set $x (call $exp (f32x4.sub (v128.load (local.get $i)) (local.get $max))))
      (v128.store (local.get $i) (local.get $x))
      (local.set $sum (f32x4.add (local.get $sum) (local.get $x)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
    (local.set $sum (f32x4.add (local.get $sum)
      (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $sum) (local.get $sum))))
    (local.set $sum (f32x4.add (local.get $sum)
      (i8x16.shuffle 4 5 6 7 0 1 2 3 12 13 14 15 8 9 10 11 (local.get $sum) (local.get $sum))))
    (local.set $i (local.get $at))
    (loop $next
      (v128.store (local.get $i) (f32x4.div (v128.load (local.get $i)) (local.get $sum)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end)))))

  ;; RMSNorm of `runs` times n numbers, whose beginnings are `step` bytes apart, in their place: each run is divided by the root
  ;; of its mean square plus ε and multiplied by the gain. Four numbers at a time up to `whole`, then one by one.
  (func (export "norm") (param $at i32) (param $step i32) (param $runs i32) (param $n i32) (param $gain i32) (param $eps f32)
    (local $i i32) (local $g i32) (local $whole i32) (local $end i32)
    (local $x v128) (local $squares v128) (local $y f32) (local $sum f32)
    (block $done (loop $run
      (br_if $done (i32.eqz (local.get $runs)))
      (local.set $whole (i32.add (local.get $at) (i32.shl (i32.and (local.get $n) (i32.const -4)) (i32.const 2))))
      (local.set $end (i32.add (local.get $at) (i32.shl (local.get $n) (i32.const 2))))

      (local.set $squares (v128.const f32x4 0 0 0 0))
      (local.set $i (local.get $at))
      (block $summed (loop $next
        (br_if $summed (i32.eq (local.get $i) (local.get $whole)))
        (local.set $x (v128.load (local.get $i)))
        (local.set $squares (f32x4.add (local.get $squares) (f32x4.mul (local.get $x) (local.get $x))))
        (local.set $i (i32.add (local.get $i) (i32.const 16)))
        (br $next)))
      (local.set $sum (call $sum (local.get $squares)))
      (block $summed (loop $next
        (br_if $summed (i32.eq (local.get $i) (local.get $end)))
        (local.set $y (f32.load (local.get $i)))
        (local.set $sum (f32.add (local.get $sum) (f32.mul (local.get $y) (local.get $y))))
        (local.set $i (i32.add (local.get $i) (i32.const 4)))
        (br $next)))

      (local.set $y (f32.div (f32.const 1)
        (f32.sqrt (f32.add (f32.div (local.get $sum) (f32.convert_i32_s (local.get $n))) (local.get $eps)))))
      (local.set $x (f32x4.splat (local.get $y)))
      (local.set $i (local.get $at))
      (local.set $g (local.get $gain))
      (block $scaled (loop $next
        (br_if $scaled (i32.eq (local.get $i) (local.get $whole)))
        (v128.store (local.get $i)
          (f32x4.mul (f32x4.mul (v128.load (local.get $i)) (local.get $x)) (v128.load (local.get $g))))
        (local.set $i (i32.add (local.get $i) (i32.const 16)))
        (local.set $g (i32.add (local.get $g) (i32.const 16)))
        (br $next)))
      (block $scaled (loop $next
        (br_if $scaled (i32.eq (local.get $i) (local.get $end)))
        (f32.store (local.get $i) (f32.mul (f32.mul (f32.load (local.get $i)) (local.get $y)) (f32.load (local.get $g))))
        (local.set $i (i32.add (local.get $i) (i32.const 4)))
        (local.set $g (i32.add (local.get $g) (i32.const 4)))
        (br $next)))

      (local.set $at (i32.add (local.get $at) (local.get $step)))
      (local.set $runs (i32.sub (local.get $runs) (i32.const 1)))
      (br $run))))

  ;; From the gradients of RMSNorm's outputs to those of its inputs x, for `runs` times n numbers, a multiple of four: they are set,
  ;; or added if all bits of `keep` count. Those of the gain are added up. What lengthens x changes nothing in the result, so the
  ;; gradient along x is taken out: with i one over the root, it becomes i·(gain·grad) − x·i³·(the mean of gain·grad·x).
  (func (export "normBack")
    (param $x i32) (param $xStep i32) (param $grad i32) (param $gradStep i32) (param $to i32) (param $toStep i32)
    (param $runs i32) (param $n i32) (param $gain i32) (param $toGain i32) (param $eps f32) (param $keep i32)
    (local $i i32) (local $end i32) (local $one f32)
    (local $mask v128) (local $a v128) (local $b v128) (local $squares v128) (local $along v128) (local $inverse v128)
    (local.set $mask (i32x4.splat (local.get $keep)))
    (local.set $end (i32.shl (local.get $n) (i32.const 2)))
    (block $done (loop $run
      (br_if $done (i32.eqz (local.get $runs)))
      (local.set $squares (v128.const f32x4 0 0 0 0))
      (local.set $along (v128.const f32x4 0 0 0 0))
      (local.set $i (i32.const 0))
      (loop $next
        (local.set $a (v128.load (i32.add (local.get $x) (local.get $i))))
        (local.set $b (f32x4.mul
          (v128.load (i32.add (local.get $grad) (local.get $i))) (v128.load (i32.add (local.get $gain) (local.get $i)))))
        (local.set $squares (f32x4.add (local.get $squares) (f32x4.mul (local.get $a) (local.get $a))))
        (local.set $along (f32x4.add (local.get $along) (f32x4.mul (local.get $a) (local.get $b))))
        (br_if $next (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
      (local.set $one (f32.div (f32.const 1) (f32.sqrt (f32.add (local.get $eps)
        (f32.div (call $sum (local.get $squares)) (f32.convert_i32_s (local.get $n)))))))
      (local.set $inverse (f32x4.splat (local.get $one)))
      (local.set $along (f32x4.splat (f32.div
        (f32.mul (call $sum (local.get $along)) (f32.mul (local.get $one) (local.get $one)))
        (f32.convert_i32_s (local.get $n)))))
      (local.set $i (i32.const 0))
      (loop $next
        (local.set $a (v128.load (i32.add (local.get $x) (local.get $i))))
        (local.set $b (v128.load (i32.add (local.get $grad) (local.get $i))))
        (v128.store (i32.add (local.get $toGain) (local.get $i)) (f32x4.add
          (v128.load (i32.add (local.get $toGain) (local.get $i)))
          (f32x4.mul (local.get $b) (f32x4.mul (local.get $a) (local.get $inverse)))))
        (v128.store (i32.add (local.get $to) (local.get $i)) (f32x4.add
          (v128.and (local.get $mask) (v128.load (i32.add (local.get $to) (local.get $i))))
          (f32x4.mul (local.get $inverse) (f32x4.sub
            (f32x4.mul (local.get $b) (v128.load (i32.add (local.get $gain) (local.get $i))))
            (f32x4.mul (local.get $a) (local.get $along))))))
        (br_if $next (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
      (local.set $x (i32.add (local.get $x) (local.get $xStep)))
      (local.set $grad (i32.add (local.get $grad) (local.get $gradStep)))
      (local.set $to (i32.add (local.get $to) (local.get $toStep)))
      (local.set $runs (i32.sub (local.get $runs) (i32.const 1)))
      (br $run))))

  ;; The gradient of softmax's inputs from that of its outputs p, in its place, for `rows` times n numbers, a multiple of four:
  ;; p·(grad − the sum of p·grad).
  (func (export "softenBack") (param $p i32) (param $grad i32) (param $step i32) (param $rows i32) (param $n i32)
    (local $i i32) (local $end i32) (local $sum v128) (local $a v128)
    (local.set $end (i32.shl (local.get $n) (i32.const 2)))
    (block $done (loop $row
      (br_if $done (i32.eqz (local.get $rows)))
      (local.set $sum (v128.const f32x4 0 0 0 0))
      (local.set $i (i32.const 0))
      (loop $next
        (local.set $a (v128.load (i32.add (local.get $p) (local.get $i))))
        (local.set $sum (f32x4.add (local.get $sum)
          (f32x4.mul (local.get $a) (v128.load (i32.add (local.get $grad) (local.get $i))))))
        (br_if $next (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
      (local.set $sum (f32x4.splat (call $sum (local.get $sum))))
      (local.set $i (i32.const 0))
      (loop $next
        (v128.store (i32.add (local.get $grad) (local.get $i)) (f32x4.mul
          (v128.load (i32.add (local.get $p) (local.get $i)))
          (f32x4.sub (v128.load (i32.add (local.get $grad) (local.get $i))) (local.get $sum))))
        (br_if $next (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $end))))
      (local.set $p (i32.add (local.get $p) (local.get $step)))
      (local.set $grad (i32.add (local.get $grad) (local.get $step)))
      (local.set $rows (i32.sub (local.get $rows) (i32.const 1)))
      (br $row))))

  ;; RoPE of `runs` times n numbers, one after the other, in their place: i and i + n/2 are a pair, and n/2 is a multiple of four.
  ;; At `angles` are n/2 cosines and n/2 sines; they are multiplied by `cos` and `sin`, which can scale and turn back.
  (func (export "turn") (param $at i32) (param $runs i32) (param $n i32) (param $angles i32) (param $cos f32) (param $sin f32)
    (local $i i32) (local $half i32) (local $first i32) (local $second i32) (local $angle i32) (local $a v128) (local $b v128) (local $c v128) (local $s v128)
    (local.set $half (i32.shl (local.get $n) (i32.const 1)))
    (block $done (loop $run
      (br_if $done (i32.eqz (local.get $runs)))
      (local.set $i (i32.const 0))
      (loop $next
        (local.set $first (i32.add (local.get $at) (local.get $i)))
        (local.set $second (i32.add (local.get $first) (local.get $half)))
        (local.set $angle (i32.add (local.get $angles) (local.get $i)))
        (local.set $c (f32x4.mul (f32x4.splat (local.get $cos)) (v128.load (local.get $angle))))
        (local.set $s (f32x4.mul (f32x4.splat (local.get $sin)) (v128.load (i32.add (local.get $angle) (local.get $half)))))
        (local.set $a (v128.load (local.get $first)))
        (local.set $b (v128.load (local.get $second)))
        (v128.store (local.get $first)
          (f32x4.sub (f32x4.mul (local.get $a) (local.get $c)) (f32x4.mul (local.get $b) (local.get $s))))
        (v128.store (local.get $second)
          (f32x4.add (f32x4.mul (local.get $a) (local.get $s)) (f32x4.mul (local.get $b) (local.get $c))))
        (br_if $next (i32.ne (local.tee $i (i32.add (local.get $i) (i32.const 16))) (local.get $half))))
      (local.set $at (i32.add (local.get $at) (i32.shl (local.get $half) (i32.const 1))))
      (local.set $runs (i32.sub (local.get $runs) (i32.const 1)))
      (br $run))))

  ;; The transpose of n times m numbers, both multiples of four: four times four at a time. Rows are `row` bytes apart.
  (func (export "transpose") (param $to i32) (param $toRow i32) (param $from i32) (param $row i32) (param $n i32) (param $m i32)
    (local $left i32) (local $p i32) (local $q i32) (local $r i32) (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $s v128) (local $t v128) (local $u v128) (local $v v128)
    (block $done (loop $down
      (br_if $done (i32.eqz (local.get $n)))
      (local.set $left (local.get $m))
      (local.set $p (local.get $from))
      (local.set $q (local.get $to))
      (block $across (loop $next
        (br_if $across (i32.eqz (local.get $left)))
        (local.set $a (v128.load (local.get $p)))
        (local.set $b (v128.load (local.tee $r (i32.add (local.get $p) (local.get $row)))))
        (local.set $c (v128.load (local.tee $r (i32.add (local.get $r) (local.get $row)))))
        (local.set $d (v128.load (i32.add (local.get $r) (local.get $row))))
        (local.set $s (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b)))
        (local.set $t (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d)))
        (local.set $u (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b)))
        (local.set $v (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d)))
        (v128.store (local.get $q)
          (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $s) (local.get $t)))
        (v128.store (local.tee $q (i32.add (local.get $q) (local.get $toRow)))
          (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $s) (local.get $t)))
        (v128.store (local.tee $q (i32.add (local.get $q) (local.get $toRow)))
          (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $u) (local.get $v)))
        (v128.store (local.tee $q (i32.add (local.get $q) (local.get $toRow)))
          (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $u) (local.get $v)))
        (local.set $q (i32.add (local.get $q) (local.get $toRow)))
        (local.set $p (i32.add (local.get $p) (i32.const 16)))
        (local.set $left (i32.sub (local.get $left) (i32.const 4)))
        (br $next)))
      (local.set $from (i32.add (local.get $from) (i32.shl (local.get $row) (i32.const 2))))
      (local.set $to (i32.add (local.get $to) (i32.const 16)))
      (local.set $n (i32.sub (local.get $n) (i32.const 4)))
      (br $down))))

  (func $sum (param $x v128) (result f32)
    (f32.add
      (f32.add (f32x4.extract_lane 0 (local.get $x)) (f32x4.extract_lane 1 (local.get $x)))
      (f32.add (f32x4.extract_lane 2 (local.get $x)) (f32x4.extract_lane 3 (local.get $x))))))
