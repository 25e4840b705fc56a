//! The cost of a stage's firings: measured, fitted, or given for a modelled core.

use alloc::vec::Vec;

/// The most points of a [`Spread`].
pub const MAX_POINTS: usize = 16;

/// How the times of calls vary around their mean: a discrete distribution of `time / mean time`.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread(Vec<(f64, f64)>);

impl Default for Spread {
    /// Every call takes the mean time.
    fn default() -> Self {
        Self(alloc::vec![(1.0, 1.0)])
    }
}

impl Spread {
    /// Quantiles at which a measured spread is divided: each point is the mean of the calls in
    /// between.
    const STEPS: [f64; 11] = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0];

    /// `(time / mean, probability)` of each point; probabilities are normalised to a sum of 1.
    ///
    /// # Errors
    ///
    /// If there is no point or more than [`MAX_POINTS`], or one is negative or not a number.
    pub fn new(points: &[(f64, f64)]) -> Result<Self, CostError> {
        let sound = |(ratio, share): &(f64, f64)| {
            ratio.is_finite() && share.is_finite() && *ratio >= 0.0 && *share >= 0.0
        };
        let all: f64 = points.iter().map(|(_, share)| share).sum();
        if points.len() > MAX_POINTS || !points.iter().all(sound) || all <= 0.0 {
            return Err(CostError::Spread);
        }
        let mut points: Vec<_> = points.iter().map(|(r, share)| (*r, share / all)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(Self(points))
    }

    /// From measured times of equal calls: eleven points with the same mean.
    ///
    /// # Errors
    ///
    /// If there are none, or their sum is 0.
    pub fn of(times_ns: &[f64]) -> Result<Self, CostError> {
        let mut sorted = times_ns.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (n, sum) = (sorted.len(), sorted.iter().sum::<f64>());
        let (mut points, mut from) = (Vec::new(), 0);
        for step in Self::STEPS {
            let to = ((step * n as f64) as usize).clamp(from, n);
            let part = &sorted[from..to];
            if !part.is_empty() && sum > 0.0 {
                let mean = part.iter().sum::<f64>() / part.len() as f64;
                points.push((mean * n as f64 / sum, part.len() as f64 / n as f64));
            }
            from = to;
        }
        Self::new(&points)
    }

    /// `(time / mean, probability)`, ascending.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// The ratio that a fraction `q` (0 … 1) of calls does not exceed.
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let mut seen = 0.0;
        let point = self.0.iter().find(|(_, share)| {
            seen += share;
            seen >= q - 1e-12
        });
        point.or(self.0.last()).map_or(1.0, |(ratio, _)| *ratio)
    }
}

/// The cost of a call of a stage: `C(b) = a + b·e` nanoseconds for `b` firings on average, and how
/// the times vary around that.
///
/// ```
/// use linecard_plan::Cost;
/// let cost = Cost::new(100.0, 20.0)?;
/// assert_eq!((cost.at(1.0), cost.at(64.0)), (120.0, 1_380.0));
/// // Firings per second on one core, and what a longer batch does for them.
/// assert!(cost.capacity(64.0) > 5.0 * cost.capacity(1.0));
/// # Ok::<(), linecard_plan::CostError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cost {
    /// `a`: per call, nanoseconds.
    pub fixed_ns: f64,
    /// `e`: per firing, nanoseconds.
    pub each_ns: f64,
    /// How the times of calls vary.
    pub spread: Spread,
}

/// Why a cost is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum CostError {
    #[error("a cost is a number of nanoseconds, 0 or more, and not both parts are 0")]
    Value,
    #[error("a spread has 1 to {MAX_POINTS} points, with ratios and shares of 0 or more")]
    Spread,
    #[error("there is no measurement to fit a cost to")]
    NoSample,
}

impl Cost {
    /// `a` and `e` in nanoseconds; every call takes the mean time.
    ///
    /// # Errors
    ///
    /// If one is negative or not a number, or both are 0.
    pub fn new(fixed_ns: f64, each_ns: f64) -> Result<Self, CostError> {
        let sound = |ns: f64| ns.is_finite() && ns >= 0.0;
        if !sound(fixed_ns) || !sound(each_ns) || fixed_ns + each_ns <= 0.0 {
            return Err(CostError::Value);
        }
        Ok(Self { fixed_ns, each_ns, spread: Spread::default() })
    }

    /// For a modelled core: cycles per call and per firing, and the clock in hertz.
    ///
    /// # Errors
    ///
    /// As [`Cost::new`].
    pub fn of_cycles(fixed: f64, each: f64, clock_hz: f64) -> Result<Self, CostError> {
        Self::new(fixed * 1e9 / clock_hz, each * 1e9 / clock_hz)
    }

    /// The same with this spread.
    #[must_use]
    pub fn with_spread(self, spread: Spread) -> Self {
        Self { spread, ..self }
    }

    /// Mean time of a call with `batch` firings, in nanoseconds.
    #[must_use]
    pub fn at(&self, batch: f64) -> f64 {
        self.fixed_ns + batch * self.each_ns
    }

    /// The time that a fraction `q` of such calls does not exceed, in nanoseconds.
    #[must_use]
    pub fn quantile(&self, batch: f64, q: f64) -> f64 {
        self.at(batch) * self.spread.quantile(q)
    }

    /// `h = b / C(b)`: firings per second of a core dedicated to the stage.
    #[must_use]
    pub fn capacity(&self, batch: f64) -> f64 {
        batch * 1e9 / self.at(batch)
    }
}

/// A fitted cost, and the quality of the fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The cost; its spread is the default.
    pub cost: Cost,
    /// The largest deviation of a measurement from the fit, relative to the measurement.
    pub residual: f64,
}

/// Fits `a + b·e` to `(firings in a call, mean time of it in ns)` by least squares of relative
/// deviations, so that small batches have the same weight as large ones; neither part is negative.
/// Equal batches are replaced by their median first, so that a single outlier has no effect.
///
/// # Errors
///
/// If there is no measurement, or one is not a positive number.
///
/// ```
/// use linecard_plan::fit;
/// let fit = fit(&[(1.0, 120.0), (8.0, 260.0), (64.0, 1_380.0), (64.0, 1_380.0), (64.0, 9e4)])?;
/// assert!((fit.cost.fixed_ns - 100.0).abs() < 1e-6 && fit.residual < 1e-6);
/// # Ok::<(), linecard_plan::CostError>(())
/// ```
pub fn fit(measured: &[(f64, f64)]) -> Result<Fit, CostError> {
    let points = medians(measured);
    if points.is_empty() {
        return Err(CostError::NoSample);
    }
    if points.iter().any(|(batch, ns)| !ns.is_finite() || *ns <= 0.0 || *batch <= 0.0) {
        return Err(CostError::Value);
    }
    // Minimise Σ ((a + b·e)/y − 1)²: with u = 1/y and v = b/y, normal equations of two unknowns.
    let [mut uu, mut uv, mut vv, mut u1, mut v1] = [0.0; 5];
    for (batch, ns) in &points {
        let (u, v) = (1.0 / ns, batch / ns);
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
    }
    let determinant = uu * vv - uv * uv;
    let solvable = determinant > 1e-9 * uu * vv;
    let fixed = if solvable { (u1 * vv - v1 * uv) / determinant } else { 0.0 };
    let each = if solvable { (v1 * uu - u1 * uv) / determinant } else { v1 / vv };
    // If the optimum is not a valid cost, the best point on the border.
    let (fixed, each) = match (fixed < 0.0, each < 0.0) {
        (true, _) => (0.0, v1 / vv),
        (_, true) => (u1 / uu, 0.0),
        _ => (fixed, each),
    };
    let cost = Cost::new(fixed, each)?;
    let off = points.iter().map(|(batch, ns)| (cost.at(*batch) / ns - 1.0).abs());
    let residual = off.fold(0.0, f64::max);
    Ok(Fit { cost, residual })
}

/// One point for each batch.
fn medians(measured: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = measured.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let groups = sorted.chunk_by(|a, b| a.0 == b.0);
    groups.map(|group| group[group.len() / 2]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn a_noisy_line_is_found_again() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let (a, e) = (20.0 + rng.below(500) as f64, 1.0 + rng.below(200) as f64);
            let mut measured = Vec::new();
            for batch in [1.0, 4.0, 16.0, 64.0] {
                for _ in 0..9 {
                    // Within 2 %, but one in nine has met an interrupt.
                    let noise = 0.98 + rng.below(41) as f64 / 1000.0;
                    measured.push((batch, (a + batch * e) * noise));
                }
                measured.push((batch, 1e6));
            }
            let fit = fit(&measured).expect("measurements");
            assert!(fit.residual < 0.03, "{fit:?}");
            for batch in [1.0, 8.0, 64.0] {
                let off = fit.cost.at(batch) / (a + batch * e) - 1.0;
                assert!(off.abs() < 0.03, "{a} {e} {batch}: {off}");
            }
        }
    }

    #[test]
    fn a_cost_is_never_negative() {
        let falling = fit(&[(1.0, 100.0), (64.0, 90.0)]).expect("measured");
        assert_eq!((falling.cost.each_ns, falling.cost.fixed_ns > 90.0), (0.0, true));
        let steep = fit(&[(1.0, 1.0), (64.0, 9_000.0)]).expect("measured");
        assert_eq!((steep.cost.fixed_ns, steep.cost.each_ns > 0.0), (0.0, true));
        let single = fit(&[(8.0, 80.0)]).expect("measured");
        assert!(single.cost.fixed_ns == 0.0 && (single.cost.each_ns - 10.0).abs() < 1e-9);
        assert_eq!(fit(&[]), Err(CostError::NoSample));
        assert_eq!(fit(&[(1.0, f64::NAN)]), Err(CostError::Value));
        assert_eq!(Cost::new(0.0, 0.0), Err(CostError::Value));
        assert_eq!(Cost::new(-1.0, 2.0), Err(CostError::Value));
        let modelled = Cost::of_cycles(40.0, 20.0, 1e9).expect("a cost");
        assert_eq!((modelled.fixed_ns, modelled.each_ns), (40.0, 20.0));
        assert!(Cost::of_cycles(40.0, 20.0, 0.0).is_err());
    }

    #[test]
    fn a_spread_keeps_mean_and_quantiles() {
        let times: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let spread = Spread::of(&times).expect("times");
        let mean: f64 = spread.points().iter().map(|(ratio, share)| ratio * share).sum();
        let shares: f64 = spread.points().iter().map(|(_, share)| share).sum();
        assert!((mean - 1.0).abs() < 1e-9 && (shares - 1.0).abs() < 1e-9);
        assert!((1.9..=2.0).contains(&spread.quantile(0.99)), "{}", spread.quantile(0.99));
        assert!(spread.quantile(1.0) <= 2.0 && spread.quantile(0.0) < 0.2);
        assert_eq!(Spread::of(&[]), Err(CostError::Spread));
        assert_eq!(Spread::of(&[0.0]), Err(CostError::Spread));
        assert_eq!(Spread::new(&[(1.0, -1.0)]), Err(CostError::Spread));
        assert_eq!(Spread::new(&[(1.0, 1.0); MAX_POINTS + 1]), Err(CostError::Spread));
    }
}
