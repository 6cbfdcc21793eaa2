"""Tests the products of matrices in a page: both kernels and plain JavaScript against NumPy, and when which is used."""

import numpy as np
import pytest
from close import SINGLE, assert_close
from linking import array_of, base64_of, link

from tools.assets import kernel

# Everything that is in a memory after one of its functions has run in it.
RUN = """({ plain, name, numbers, given }) => {
  const memory = js.memoryOf(numbers.length / 4, { plain });
  memory.numbers.set(new Float32Array(bytesOf(numbers).buffer));
  if (memory.isFast === plain) throw new Error(`asked for plain=${plain}, and got isFast=${memory.isFast}`);
  memory[name](...given);
  return textOf(new Uint8Array(memory.numbers.buffer));
}"""
IS_FAST = "js.memoryOf(16).isFast"
WITHOUT_RELAXED_SIMD = "() => void (WebAssembly.validate = (bytes) => textOf(bytes) !== js.FUSED)"


@pytest.fixture(scope="module", params=["fused", "unfused"])
def page(browser, request):
    page = link(browser.new_page(), "products", "kernel")
    if request.param == "unfused":
        page.evaluate(WITHOUT_RELAXED_SIMD)
    yield page
    page.close()


def run(page, name, numbers, given, *, plain):
    """Returns all numbers of the memory after one of its functions has run."""
    numbers = np.concatenate([numbers, np.zeros(-len(numbers) % 4)]).astype(np.float32)
    asked = {"plain": plain, "name": name, "given": given, "numbers": base64_of(numbers.tobytes())}
    return array_of(page.evaluate(RUN, asked), dtype=np.float32)[: len(numbers)]


class Product:
    """Three matrices in a memory, with gaps between their rows, and what the product must leave there."""

    def __init__(self, rows, inner, columns, *, adds=False, in_strips=True, across=False, value=None):
        random = np.random.default_rng([rows, inner, columns])
        strips = -(-columns // 16)
        self.A = random.normal(size=(rows, inner)).astype(np.float32)
        self.B = np.zeros((inner, 16 * strips), np.float32)
        self.B[:, :columns] = random.normal(size=(inner, columns))
        if value is not None:
            self.A[-1, 0] = value
        self.before = random.normal(size=(rows, 16 * strips)).astype(np.float32)
        a = random.normal(size=(inner, rows + 3) if across else (rows, inner + 3)).astype(np.float32)
        a[:, : rows if across else inner] = self.A.T if across else self.A
        a_row, a_step = (1, rows + 3) if across else (inner + 3, 1)
        if in_strips:
            b = np.concatenate([self.B[:, i : i + 16].ravel() for i in range(0, 16 * strips, 16)] or [[]])
            b_row, b_strip = 16, 16 * inner
        else:
            b = np.pad(self.B, ((0, 0), (0, 5))).ravel()
            b_row, b_strip = 16 * strips + 5, 16
        c_row = 16 * strips + 4
        c = np.full((rows, c_row), 7, np.float32)
        c[:, : 16 * strips] = self.before
        self.numbers = np.concatenate([a.ravel(), b, c.ravel()])
        self.c_at, self.c_shape = a.size + len(b), c.shape
        places = [self.c_at, c_row, 0, a_row, a_step, a.size, b_row, b_strip]
        self.given = [*(4 * place for place in places), rows, inner, strips, -1 if adds else 0]
        with np.errstate(invalid="ignore"):
            product = self.A.astype(float) @ self.B.astype(float)
        self.expected = product + self.before if adds else product

    def check(self, found):
        c = found[self.c_at :][: np.prod(self.c_shape)].reshape(self.c_shape)
        result = c[:, : self.expected.shape[1]]
        finite = np.isfinite(self.expected)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(self.expected))
        np.testing.assert_array_equal(result[~finite], self.expected[~finite].astype(np.float32))
        assert_close(np.where(finite, result, 0), np.where(finite, self.expected, 0), SINGLE)
        np.testing.assert_array_equal(c[:, self.expected.shape[1] :], 7)  # nothing beyond its columns
        np.testing.assert_array_equal(found[: self.c_at], self.numbers[: self.c_at].astype(np.float32))


SHAPES = [
    (1, 1, 1),
    (1, 128, 344),  # a character
    (2, 3, 16),
    (3, 5, 17),
    (32, 344, 128),
    (31, 18, 65),
    (7, 27, 7),
    (64, 1, 33),
    (0, 4, 16),
    (4, 0, 16),
]
PLAIN = pytest.mark.parametrize("plain", [False, True], ids=["kernel", "plain"])


@PLAIN
@pytest.mark.parametrize("adds", [False, True], ids=["set", "added"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_numpys(page, shape, adds, plain):
    product = Product(*shape, adds=adds)
    product.check(run(page, "multiply", product.numbers, product.given, plain=plain))


@PLAIN
@pytest.mark.parametrize("shape", [(5, 7, 33), (8, 18, 16)], ids=str)
def test_the_rows_of_b_may_be_far_apart(page, shape, plain):
    product = Product(*shape, adds=True, in_strips=False)
    product.check(run(page, "multiply", product.numbers, product.given, plain=plain))


@PLAIN
@pytest.mark.parametrize("adds", [False, True], ids=["set", "added"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_may_be_the_transpose_of_a_stored_matrix(page, shape, adds, plain):
    product = Product(*shape, adds=adds, across=True)
    product.check(run(page, "multiply", product.numbers, product.given, plain=plain))


@PLAIN
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows", [3, 4])
def test_what_is_no_number_stays_in_its_row(page, rows, value, plain):
    product = Product(rows, 6, 16, value=value)
    assert np.isfinite(product.expected[:-1]).all()
    assert not np.isfinite(product.expected[-1]).any()
    product.check(run(page, "multiply", product.numbers, product.given, plain=plain))


@PLAIN
def test_what_was_no_number_is_overwritten(page, plain):
    product = Product(3, 4, 16)
    product.numbers[product.c_at : product.c_at + 16] = np.nan
    product.check(run(page, "multiply", product.numbers, product.given, plain=plain))


@PLAIN
def test_the_gate_is_numpys(page, plain):
    gate = np.concatenate([np.linspace(-90, 90, 4001), np.linspace(-5, 5, 4003), [0.0, -0.0, 1e-30, 300]])
    gate = gate.astype(np.float32)
    up = np.random.default_rng(0).normal(size=len(gate)).astype(np.float32)
    n = len(gate)
    assert n % 4 == 0
    found = run(page, "gate", np.concatenate([up, gate]), [0, 4 * n, n], plain=plain)
    expected = up.astype(float) * gate / (1 + np.exp(-gate.astype(float)))
    # Of each number on its own, down to where the smallest exponent of the kernel ends.
    np.testing.assert_allclose(found[:n], expected, rtol=1e-6, atol=1e-35)
    np.testing.assert_array_equal(found[n:], gate)


@PLAIN
def test_the_gate_passes_on_what_is_no_number(page, plain):
    numbers = np.array([1, np.nan, np.inf, 1, np.nan, 1, 1, np.inf])
    found = run(page, "gate", numbers, [0, 16, 4], plain=plain)[:4]
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.inf, np.inf])


@PLAIN
def test_the_gradient_of_the_gate_is_numpys(page, plain):
    gate = np.concatenate([np.linspace(-80, 80, 401), np.linspace(-5, 5, 403), [0.0, -0.0, 1e-30, 300]])
    gate = gate.astype(np.float32)
    n = len(gate)
    assert n % 4 == 0
    up, grad = np.random.default_rng(0).normal(size=(2, n)).astype(np.float32)
    before = np.full(n, 7, np.float32)
    numbers = np.concatenate([grad, before, before, gate, up])
    found = run(page, "gateBack", numbers, [0, 4 * n, 8 * n, 12 * n, 16 * n, n], plain=plain)
    share = 1 / (1 + np.exp(-gate.astype(float)))
    slope = share * (1 + gate * (1 - share))
    assert_close(found[n : 2 * n], grad * up * slope, SINGLE)
    np.testing.assert_allclose(found[2 * n : 3 * n], grad * gate * share, rtol=2e-6, atol=1e-33)
    for i, given in enumerate([grad, None, None, gate, up]):
        if given is not None:
            np.testing.assert_array_equal(found[i * n : (i + 1) * n], given)


@PLAIN
@pytest.mark.parametrize("n", [1, 3, 4, 7, 64, 127])
def test_softmax_is_numpys(page, n, plain):
    scores = np.random.default_rng(n).normal(scale=2, size=n).astype(np.float32)
    padded = np.concatenate([scores, np.full(-n % 4, -np.inf, np.float32)])
    around = np.full(4, 5, np.float32)
    found = run(
        page, "soften", np.concatenate([around, padded, around]), [16, 16 + 4 * len(padded)], plain=plain
    )
    exponentials = np.exp(scores.astype(float) - scores.max())
    np.testing.assert_allclose(found[4 : 4 + n], exponentials / exponentials.sum(), rtol=2e-6)
    assert np.all(found[4 + n : 4 + len(padded)] < 1e-37)
    np.testing.assert_array_equal(found[[0, 1, 2, 3, -4, -3, -2, -1]], 5)  # nothing beside it


@PLAIN
def test_the_size_of_the_scores_does_not_matter(page, plain):
    scores = np.array([1e30, 1e30, -1e30, 0], np.float32)
    np.testing.assert_allclose(
        run(page, "soften", scores, [0, 16], plain=plain), [0.5, 0.5, 0, 0], rtol=1e-6, atol=1e-37
    )


@PLAIN
def test_one_score_that_is_no_number_spoils_the_whole_softmax(page, plain):
    found = run(page, "soften", np.array([1, 2, 3, 4, 5, np.nan, 7, 8]), [0, 32], plain=plain)
    assert np.isnan(found).all()


@PLAIN
def test_of_no_numbers_there_is_no_softmax(page, plain):
    numbers = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(run(page, "soften", numbers, [16, 16], plain=plain), numbers)


@PLAIN
@pytest.mark.parametrize(("runs", "n"), [(1, 128), (3, 32), (2, 18), (4, 5), (2, 3), (0, 8)])
def test_the_norm_is_numpys(page, runs, n, plain):
    random = np.random.default_rng([runs, n])
    step, eps = n + 3, 0.01
    x = random.normal(scale=0.1, size=(runs, step)).astype(np.float32)
    gain = random.normal(size=n).astype(np.float32)
    given = [0, 4 * step, runs, n, 4 * x.size, eps]
    found = run(page, "norm", np.concatenate([x.ravel(), gain]), given, plain=plain)
    mean_square = np.mean(x[:, :n].astype(float) ** 2, axis=1, keepdims=True)
    normed = found[: x.size].reshape(x.shape)
    np.testing.assert_allclose(normed[:, :n], x[:, :n] / np.sqrt(mean_square + eps) * gain, rtol=2e-6)
    np.testing.assert_array_equal(normed[:, n:], x[:, n:])  # nothing between the runs
    np.testing.assert_array_equal(found[x.size : x.size + n], gain)


@PLAIN
@pytest.mark.parametrize("adds", [False, True], ids=["set", "added"])
@pytest.mark.parametrize("in_place", [False, True], ids=["elsewhere", "in place"])
@pytest.mark.parametrize(("runs", "n"), [(1, 128), (3, 32), (2, 4), (0, 8)])
def test_the_gradient_of_the_norm_is_numpys(page, runs, n, in_place, adds, plain):
    random = np.random.default_rng([runs, n])
    eps = 0.01
    x, grad, before = (random.normal(size=(runs, n + gap)).astype(np.float32) for gap in (3, 4, 5))
    gain, gain_before = random.normal(size=(2, n)).astype(np.float32)
    parts = [x, grad, before, gain, gain_before]
    at = [4 * sum(part.size for part in parts[:i]) for i in range(5)]
    target = 1 if in_place else 2
    rows = [place for i in (0, 1, target) for place in (at[i], 4 * parts[i].shape[1])]
    given = [*rows, runs, n, at[3], at[4], eps, -1 if adds else 0]
    found = run(page, "normBack", np.concatenate([part.ravel() for part in parts]), given, plain=plain)
    X, G = x[:, :n].astype(float), grad[:, :n].astype(float)
    inverse = 1 / np.sqrt(np.mean(X**2, axis=1, keepdims=True) + eps)
    along = np.mean(G * gain * X * inverse, axis=1, keepdims=True)
    expected = parts.copy()
    expected[target] = parts[target].astype(float)
    expected[target][:, :n] *= adds
    expected[target][:, :n] += (G * gain - X * inverse * along) * inverse
    expected[4] = gain_before + np.sum(G * X * inverse, axis=0)
    assert_close(found, np.concatenate([part.ravel() for part in expected]), SINGLE)


@PLAIN
@pytest.mark.parametrize(("rows", "n"), [(1, 4), (3, 64), (0, 8)])
def test_the_gradient_of_softmax_is_numpys(page, rows, n, plain):
    p, grad = np.random.default_rng([rows, n]).normal(size=(2, rows, n + 4)).astype(np.float32)
    numbers = np.concatenate([p.ravel(), grad.ravel()])
    found = run(page, "softenBack", numbers, [0, 4 * p.size, 4 * (n + 4), rows, n], plain=plain)
    P, G = p[:, :n].astype(float), grad[:, :n].astype(float)
    expected = grad.astype(float)
    expected[:, :n] = P * (G - np.sum(P * G, axis=1, keepdims=True))
    assert_close(found, np.concatenate([p.ravel(), expected.ravel()]), SINGLE)


@PLAIN
@pytest.mark.parametrize(("runs", "n"), [(1, 8), (3, 32), (0, 16)])
def test_pairs_are_turned_as_in_numpy_and_back(page, runs, n, plain):
    random = np.random.default_rng([runs, n])
    angle = random.uniform(0, 7, n // 2)
    x, angles = random.normal(size=(runs, n)), np.concatenate([np.cos(angle), np.sin(angle)])
    turned = run(
        page, "turn", np.concatenate([x.ravel(), angles]), [0, runs, n, 4 * x.size, 0.5, 0.5], plain=plain
    )
    pairs = (x[:, : n // 2] + 1j * x[:, n // 2 :]) * 0.5 * np.exp(1j * angle)
    assert_close(turned, np.concatenate([np.hstack([pairs.real, pairs.imag]).ravel(), angles]), SINGLE)
    back = run(page, "turn", turned, [0, runs, n, 4 * x.size, 2, -2], plain=plain)
    assert_close(back[: x.size], x.ravel(), SINGLE)


@PLAIN
@pytest.mark.parametrize(("n", "m"), [(4, 4), (12, 8), (64, 32), (0, 4), (4, 0)])
def test_a_transpose_is_numpys(page, n, m, plain):
    matrix = np.random.default_rng([n, m]).normal(size=(n, m + 3)).astype(np.float32)
    before = np.full((m, n + 5), 7, np.float32)
    given = [4 * matrix.size, 4 * (n + 5), 0, 4 * (m + 3), n, m]
    found = run(page, "transpose", np.concatenate([matrix.ravel(), before.ravel()]), given, plain=plain)
    expected = before.copy()
    expected[:, :n] = matrix[:, :m].T
    np.testing.assert_array_equal(found, np.concatenate([matrix.ravel(), expected.ravel()]))


# --- which of the two ---


def test_the_stored_bytes_are_those_of_the_text():
    assert kernel.MODULE.read_text("utf-8") == kernel.module(), "kernel.wat has changed: run `make kernel`"


@pytest.mark.parametrize("knows_it", [True, False])
def test_a_browser_without_relaxed_simd_gets_the_other_kernel(browser, knows_it):
    page = link(browser.new_page(), "products", "kernel")
    if not knows_it:
        page.evaluate(WITHOUT_RELAXED_SIMD)
    taken = page.evaluate("""() => {
      const { Module } = WebAssembly;
      WebAssembly.Module = function (bytes) {
        window.taken = textOf(bytes);
        return new Module(bytes);
      };
      const isFused = js.memoryOf(16).isFast && taken === js.FUSED;
      return [isFused, taken === js.PLAIN];
    }""")
    assert taken == [knows_it, not knows_it]
    page.close()


OLD = {
    "without WebAssembly": "delete window.WebAssembly",
    "without SIMD": "WebAssembly.Module = class { constructor() { throw new WebAssembly.CompileError('simd') } }",
    "without room for a memory": "WebAssembly.Memory = class { constructor() { throw new RangeError('memory') } }",
}


@pytest.mark.parametrize("old", OLD)
def test_an_old_browser_multiplies_in_plain_javascript(browser, old):
    page = browser.new_page()
    page.evaluate(f"() => void ({OLD[old]})")
    assert link(page, "products").evaluate(IS_FAST) is False
    page.close()


def test_a_page_that_forbids_webassembly_multiplies_in_plain_javascript(browser):
    policy = "script-src 'unsafe-inline' blob:"
    page = browser.new_page()
    page.set_content(f'<meta http-equiv="Content-Security-Policy" content="{policy}">')
    assert link(page, "products").evaluate(f"[{IS_FAST}, {IS_FAST}]") == [False, False]
    page.close()


def test_a_browser_of_today_multiplies_in_the_kernel(page):
    assert page.evaluate(IS_FAST) is True
