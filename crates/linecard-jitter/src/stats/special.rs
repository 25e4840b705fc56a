//! The special functions behind the intervals: regularised incomplete gamma and beta functions and
//! the quantiles that follow from them.
//!
//! Series and continued fractions are those of Abramowitz and Stegun (6.5.29, 6.5.31, 26.5.8);
//! quantiles are found by halving, which needs no derivative and cannot leave its bracket. Relative
//! errors are below 1e-12 for arguments up to 1e4 and grow with them, as `lgamma` does, to 1e-7 at
//! 1e8. Nothing here panics: undefined values are NaN.

/// Terms of a series or steps of a continued fraction: both need about the square root of the largest
/// argument, which is enough for 1e10.
const MAX_TERMS: usize = 200_000;
/// Bisection steps; after 1,100 any two doubles have met, and the loop ends when they have.
const MAX_HALVINGS: usize = 1_100;
/// Replaces a zero denominator in a continued fraction.
const TINY: f64 = 1e-300;

/// P(a, x): the probability that a gamma variable of shape `a` is at most `x`. `a` > 0.
///
/// ```
/// use linecard_jitter::stats::special::gamma_p;
/// assert!((gamma_p(1.0, 1.0) - 0.632_120_558_828_557_7).abs() < 1e-14);
/// ```
#[must_use]
pub fn gamma_p(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a <= 0.0 {
        return f64::NAN;
    }
    if x <= 0.0 {
        return 0.0;
    }
    if x == f64::INFINITY {
        return 1.0;
    }
    let front = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 { front * gamma_series(a, x) } else { 1.0 - front * gamma_fraction(a, x) }
}

fn gamma_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0 / a, 1.0 / a);
    for n in 1..MAX_TERMS {
        term *= x / (a + n as f64);
        sum += term;
        if term < sum * f64::EPSILON {
            break;
        }
    }
    sum
}

fn gamma_fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut fraction = Lentz::new(1.0 / TINY, b);
    for n in 1..MAX_TERMS {
        let n = n as f64;
        b += 2.0;
        if fraction.step(-n * (n - a), b) {
            break;
        }
    }
    fraction.value
}

/// Iₓ(a, b): the probability that a beta variable of shapes `a`, `b` is at most `x`. `a`, `b` > 0.
///
/// ```
/// use linecard_jitter::stats::special::beta_i;
/// assert!((beta_i(2.0, 3.0, 0.5) - 0.6875).abs() < 1e-14);
/// ```
#[must_use]
pub fn beta_i(a: f64, b: f64, x: f64) -> f64 {
    if a.is_nan() || b.is_nan() || x.is_nan() || a <= 0.0 || b <= 0.0 {
        return f64::NAN;
    }
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log1p(-x) - log_beta);
    // The fraction converges fast below the mean, and the function is symmetric about it.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let mut fraction = Lentz::new(1.0, 1.0 - (a + b) * x / (a + 1.0));
    for m in 1..MAX_TERMS {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        fraction.step(even, 1.0);
        if fraction.step(odd, 1.0) {
            break;
        }
    }
    fraction.value
}

/// A continued fraction by Lentz's method in Thompson and Barnett's form.
struct Lentz {
    c: f64,
    d: f64,
    value: f64,
}

impl Lentz {
    /// The fraction 1 / `b` so far, with `c` for the ratio of its first two numerators.
    fn new(c: f64, b: f64) -> Self {
        let d = 1.0 / away_from_zero(b);
        Self { c, d, value: d }
    }

    /// Adds `a / (b + …)`; returns true when the value no longer changes.
    fn step(&mut self, a: f64, b: f64) -> bool {
        self.d = 1.0 / away_from_zero(b + a * self.d);
        self.c = away_from_zero(b + a / self.c);
        let factor = self.c * self.d;
        self.value *= factor;
        (factor - 1.0).abs() < f64::EPSILON
    }
}

fn away_from_zero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

/// The probability that a binomial variable of `n` trials with success `p` is at most `k`.
#[must_use]
pub fn binomial_at_most(k: u64, n: u64, p: f64) -> f64 {
    if k >= n { 1.0 } else { beta_i((n - k) as f64, k as f64 + 1.0, 1.0 - p) }
}

/// The probability that it is at least `k`.
#[must_use]
pub fn binomial_at_least(k: u64, n: u64, p: f64) -> f64 {
    match k {
        0 => 1.0,
        k if k > n => 0.0,
        k => beta_i(k as f64, (n - k) as f64 + 1.0, p),
    }
}

/// The quantile `p` of a gamma variable of shape `a`.
#[must_use]
pub fn gamma_quantile(a: f64, p: f64) -> f64 {
    if !(a > 0.0 && (0.0..=1.0).contains(&p)) {
        return f64::NAN;
    }
    if p == 0.0 {
        return 0.0;
    }
    if p == 1.0 {
        return f64::INFINITY;
    }
    let mut high = a + 1.0;
    while gamma_p(a, high) < p && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    invert(|x| gamma_p(a, x) >= p, 0.0, high)
}

/// The probability that Student's t with `freedom` degrees of freedom is at most `t`.
#[must_use]
pub fn t_at_most(t: f64, freedom: f64) -> f64 {
    let tail = beta_i(freedom / 2.0, 0.5, freedom / (freedom + t * t)) / 2.0;
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile `p` of Student's t.
///
/// ```
/// use linecard_jitter::stats::special::t_quantile;
/// assert!((t_quantile(0.975, 7.0) - 2.364_624).abs() < 1e-6);
/// ```
#[must_use]
pub fn t_quantile(p: f64, freedom: f64) -> f64 {
    // NaN fails every comparison.
    if !(freedom > 0.0 && p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    if p < 0.5 {
        return -t_quantile(1.0 - p, freedom);
    }
    let mut high = 1.0;
    while t_at_most(high, freedom) < p && high < 1e150 {
        high *= 2.0;
    }
    invert(|t| t_at_most(t, freedom) >= p, 0.0, high)
}

/// The value between `low` and `high` at which `reached` becomes true, to the last bit.
fn invert(reached: impl Fn(f64) -> bool, mut low: f64, mut high: f64) -> f64 {
    for _ in 0..MAX_HALVINGS {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if reached(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, published: f64, digits: i32) {
        let unit = 10_f64.powi(-digits);
        assert!((got - published).abs() <= unit / 2.0 * 1.000_001, "{got}, published {published}");
    }

    /// Abramowitz and Stegun, table 26.8: percentage points of chi-square, which is 2·gamma(ν/2).
    #[test]
    fn chi_square_is_as_in_the_table() {
        for (freedom, p, published, digits) in [
            (1.0, 0.95, 3.841_46, 5),
            (2.0, 0.95, 5.991_46, 5),
            (10.0, 0.95, 18.307_0, 4),
            (10.0, 0.005, 2.155_86, 5),
            (30.0, 0.99, 50.892_2, 4),
            (100.0, 0.95, 124.342, 3),
        ] {
            near(2.0 * gamma_quantile(freedom / 2.0, p), published, digits);
        }
    }

    /// Abramowitz and Stegun, table 26.10.
    #[test]
    fn t_is_as_in_the_table() {
        for (freedom, p, published) in [
            (1.0, 0.975, 12.706),
            (4.0, 0.975, 2.776),
            (7.0, 0.975, 2.365),
            (10.0, 0.995, 3.169),
            (30.0, 0.95, 1.697),
            (120.0, 0.975, 1.980),
        ] {
            near(t_quantile(p, freedom), published, 3);
            near(t_quantile(1.0 - p, freedom), -published, 3);
        }
    }

    /// The sum of the binomial's terms, one by one.
    #[test]
    fn binomial_tails_equal_the_sum_of_their_terms() {
        for n in 1..40_u64 {
            for p in [0.01, 0.3, 0.5, 0.99] {
                let mut sum = 0.0;
                for k in 0..=n {
                    let above = binomial_at_least(k, n, p);
                    assert!((above - (1.0 - sum)).abs() < 1e-12, "{k} of {n} at {p}: {above}");
                    sum += term(k, n, p);
                    let below = binomial_at_most(k, n, p);
                    assert!((below - sum).abs() < 1e-12, "{k} of {n} at {p}: {below}");
                }
            }
        }
    }

    fn term(k: u64, n: u64, p: f64) -> f64 {
        let choose = (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
        choose * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32)
    }

    #[test]
    fn large_arguments_converge() {
        // A binomial of a billion trials is normal to four digits.
        let (n, p) = (1_000_000_000_u64, 0.5);
        near(binomial_at_most(n / 2, n, p), 0.5, 4);
        near(binomial_at_most(n / 2 + 15_811, n, p), 0.841_344_746_068_543, 4);
        near(gamma_p(1e8, 1e8), 0.5, 4);
    }

    #[test]
    fn what_is_not_defined_is_not_a_number() {
        assert!(gamma_p(-1.0, 1.0).is_nan() && beta_i(0.0, 1.0, 0.5).is_nan());
        assert!(t_quantile(1.0, 3.0).is_nan() && t_quantile(0.9, 0.0).is_nan());
        assert!(gamma_quantile(1.0, f64::NAN).is_nan());
        assert_eq!((gamma_p(2.0, -1.0), gamma_p(2.0, f64::INFINITY)), (0.0, 1.0));
    }
}
