;; What takes a model's time, in 32-bit floats, for products.js. "multiply" is a product of matrices: C = A·B, or C += A·B.
;; "gate" is what SwiGLU does with two of them.
;;
;; The columns of B and C are divided into strips of 16 (four vectors of four numbers each). Two rows of A meet one strip at a
;; time, so that eight sums stay in registers while `inner` rows of B pass by; a last single row has four sums. A strip is short
;; enough to stay in the fastest cache while all rows of A meet it.
;;
;; Every address and every step from one number, row or strip to the next is in bytes. So A may be a transposed matrix, and B's
;; rows may be far apart. What lies behind the last column of B, up to a whole strip, must be numbers (zeros) as well.
;;
;; `make kernel` assembles this text and writes kernel.js. A test compares them.
(module
  (import "page" "memory" (memory 0))
  (func (export "multiply")
    (param $c i32) (param $cRow i32)
    (param $a i32) (param $aRow i32) (param $aStep i32)
    (param $b i32) (param $bRow i32) (param $bStrip i32)
    (param $rows i32) (param $inner i32) (param $strips i32)
    (param $keep i32) ;; −1 to add to what is in C (all bits of it count), 0 to overwrite it (none does)
    (local $mask v128)
    (local $left i32) (local $i i32) ;; rows of A and of B that are still to come
    (local $from i32) (local $to i32) ;; the first of the two rows of A and C
    (local $p i32) (local $q i32) (local $r i32) ;; where we are in both rows of A and in B
    (local $x v128) (local $y v128)
    (local $b0 v128) (local $b1 v128) (local $b2 v128) (local $b3 v128)
    (local $s0 v128) (local $s1 v128) (local $s2 v128) (local $s3 v128)
    (local $t0 v128) (local $t1 v128) (local $t2 v128) (local $t3 v128)

    (local.set $mask (i32x4.splat (local.get $keep)))
    (block $done (loop $strip
      (br_if $done (i32.eqz (local.get $strips)))
      (local.set $left (local.get $rows))
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
        (local.set $i (local.get $inner))
        (block $summed (loop $next
          (br_if $summed (i32.eqz (local.get $i)))
          (local.set $x (v128.load32_splat (local.get $p)))
          (local.set $y (v128.load32_splat (local.get $q)))
          (local.set $b0 (v128.load (local.get $r)))
          (local.set $b1 (v128.load offset=16 (local.get $r)))
          (local.set $b2 (v128.load offset=32 (local.get $r)))
          (local.set $b3 (v128.load offset=48 (local.get $r)))
          (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul (local.get $x) (local.get $b0))))
          (local.set $s1 (f32x4.add (local.get $s1) (f32x4.mul (local.get $x) (local.get $b1))))
          (local.set $s2 (f32x4.add (local.get $s2) (f32x4.mul (local.get $x) (local.get $b2))))
          (local.set $s3 (f32x4.add (local.get $s3) (f32x4.mul (local.get $x) (local.get $b3))))
          (local.set $t0 (f32x4.add (local.get $t0) (f32x4.mul (local.get $y) (local.get $b0))))
          (local.set $t1 (f32x4.add (local.get $t1) (f32x4.mul (local.get $y) (local.get $b1))))
          (local.set $t2 (f32x4.add (local.get $t2) (f32x4.mul (local.get $y) (local.get $b2))))
          (local.set $t3 (f32x4.add (local.get $t3) (f32x4.mul (local.get $y) (local.get $b3))))
          (local.set $p (i32.add (local.get $p) (local.get $aStep)))
          (local.set $q (i32.add (local.get $q) (local.get $aStep)))
          (local.set $r (i32.add (local.get $r) (local.get $bRow)))
          (local.set $i (i32.sub (local.get $i) (i32.const 1)))
          (br $next)))
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
        (local.set $i (local.get $inner))
        (block $summed (loop $next
          (br_if $summed (i32.eqz (local.get $i)))
          (local.set $x (v128.load32_splat (local.get $from)))
          (local.set $s0 (f32x4.add (local.get $s0) (f32x4.mul (local.get $x) (v128.load (local.get $r)))))
          (local.set $s1 (f32x4.add (local.get $s1) (f32x4.mul (local.get $x) (v128.load offset=16 (local.get $r)))))
          (local.set $s2 (f32x4.add (local.get $s2) (f32x4.mul (local.get $x) (v128.load offset=32 (local.get $r)))))
          (local.set $s3 (f32x4.add (local.get $s3) (f32x4.mul (local.get $x) (v128.load offset=48 (local.get $r)))))
          (local.set $from (i32.add (local.get $from) (local.get $aStep)))
          (local.set $r (i32.add (local.get $r) (local.get $bRow)))
          (local.set $i (i32.sub (local.get $i) (i32.const 1)))
          (br $next)))
        (v128.store (local.get $to) (local.get $s0))
        (v128.store offset=16 (local.get $to) (local.get $s1))
        (v128.store offset=32 (local.get $to) (local.get $s2))
        (v128.store offset=48 (local.get $to) (local.get $s3))))

      (local.set $c (i32.add (local.get $c) (i32.const 64)))
      (local.set $b (i32.add (local.get $b) (local.get $bStrip)))
      (local.set $strips (i32.sub (local.get $strips) (i32.const 1)))
      (br $strip))))
  ;; up = up · gate · σ(gate), for `count` numbers, four at a time. With n the whole number next to −gate / log 2, e^−gate is 2^n
  ;; times a Taylor polynomial. Beyond ±87, where n would not fit a float's exponent, the last value stands for all others.
  (func (export "gate") (param $up i32) (param $gate i32) (param $count i32)
    (local $x v128) (local $r v128) (local $n v128)
    (block $done (loop $next
      (br_if $done (i32.le_s (local.get $count) (i32.const 0)))
      (local.set $x (v128.load (local.get $gate)))
      (local.set $r
        (f32x4.max (v128.const f32x4 -87 -87 -87 -87) (f32x4.min (v128.const f32x4 87 87 87 87) (f32x4.neg (local.get $x)))))
      (local.set $n
        (f32x4.nearest (f32x4.mul (local.get $r) (v128.const f32x4 1.44269504 1.44269504 1.44269504 1.44269504))))
      ;; log 2 in two parts, of which the first has few digits, so that its product with n is exact
      (local.set $r (f32x4.sub (local.get $r)
        (f32x4.mul (local.get $n) (v128.const f32x4 0.693359375 0.693359375 0.693359375 0.693359375))))
      (local.set $r (f32x4.add (local.get $r)
        (f32x4.mul (local.get $n) (v128.const f32x4 2.12194440e-4 2.12194440e-4 2.12194440e-4 2.12194440e-4))))
      (v128.store (local.get $up) (f32x4.div
        (f32x4.mul (v128.load (local.get $up)) (local.get $x))
        (f32x4.add (v128.const f32x4 1 1 1 1) (f32x4.mul
          (i32x4.shl (i32x4.add (i32x4.trunc_sat_f32x4_s (local.get $n)) (v128.const i32x4 127 127 127 127)) (i32.const 23))
          (f32x4.add (v128.const f32x4 1 1 1 1) (f32x4.mul (local.get $r)
          (f32x4.add (v128.const f32x4 1 1 1 1) (f32x4.mul (local.get $r)
          (f32x4.add (v128.const f32x4 0.5 0.5 0.5 0.5) (f32x4.mul (local.get $r)
          (f32x4.add (v128.const f32x4 1.66666667e-1 1.66666667e-1 1.66666667e-1 1.66666667e-1) (f32x4.mul (local.get $r)
          (f32x4.add (v128.const f32x4 4.16666667e-2 4.16666667e-2 4.16666667e-2 4.16666667e-2) (f32x4.mul (local.get $r)
          (f32x4.add (v128.const f32x4 8.33333333e-3 8.33333333e-3 8.33333333e-3 8.33333333e-3) (f32x4.mul (local.get $r)
            (v128.const f32x4 1.38888889e-3 1.38888889e-3 1.38888889e-3 1.38888889e-3)))))))))))))))))
      (local.set $up (i32.add (local.get $up) (i32.const 16)))
      (local.set $gate (i32.add (local.get $gate) (i32.const 16)))
      (local.set $count (i32.sub (local.get $count) (i32.const 4)))
      (br $next)))))
