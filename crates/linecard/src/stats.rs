//! A histogram of fixed size, which never allocates.

/// Sub-buckets per power of two: a bucket is at most 12.5 % wide.
const SUB: usize = 8;
/// Values below `SUB` have a bucket each, then `SUB` buckets for each power of two up to 2⁶³.
const BUCKETS: usize = SUB + (64 - SUB.ilog2() as usize) * SUB;

/// A histogram of 64-bit values with logarithmic buckets (at most 12.5 % wide) and of fixed size.
///
/// ```
/// let mut h = linecard::stats::Histogram::default();
/// (1..=100).for_each(|v| h.record(v));
/// assert_eq!((h.count(), h.max()), (100, 100));
/// assert!((44..=56).contains(&h.quantile(0.5)));
/// ```
#[derive(Clone)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, sum: 0, max: 0 }
    }
}

impl core::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max)
            .finish()
    }
}

impl Histogram {
    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `n` equal values.
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.buckets[bucket(value)] += n;
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.max = self.max.max(value);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(a, b)| *a += b);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The values counted since `earlier`, an older copy of the same histogram. The maximum of the
    /// difference is only as exact as a quantile.
    ///
    /// ```
    /// let mut h = linecard::stats::Histogram::default();
    /// h.record(1_000);
    /// let earlier = h.clone();
    /// h.record_n(5, 3);
    /// let since = h.since(&earlier);
    /// assert_eq!((since.count(), since.mean(), since.max()), (3, 5.0, 5));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        let buckets = since.buckets.iter_mut().zip(&earlier.buckets);
        buckets.for_each(|(now, before)| *now = now.saturating_sub(*before));
        since.count = since.buckets.iter().sum();
        since.sum = self.sum.saturating_sub(earlier.sum);
        let highest = since.buckets.iter().rposition(|&count| count > 0);
        since.max = highest.map_or(0, |index| upper_edge(index).min(self.max));
        since
    }

    /// The number of values that are at most `value`, to the precision of the buckets: the bucket
    /// that contains `value` counts only if `value` is its upper edge (such as 7, 15 or 31).
    ///
    /// ```
    /// let mut h = linecard::stats::Histogram::default();
    /// (1..=100).for_each(|v| h.record(v));
    /// assert_eq!((h.count_to(0), h.count_to(15), h.count_to(u64::MAX)), (0, 15, 100));
    /// ```
    #[must_use]
    pub fn count_to(&self, value: u64) -> u64 {
        let index = bucket(value);
        let whole = usize::from(upper_edge(index) == value);
        self.buckets[..index + whole].iter().sum()
    }

    /// The buckets that are not empty, in order: smallest value, largest value and count of each.
    /// At most 496.
    ///
    /// ```
    /// let mut h = linecard::stats::Histogram::default();
    /// [3, 3, 17].into_iter().for_each(|v| h.record(v));
    /// assert_eq!(h.buckets().collect::<Vec<_>>(), [(3, 3, 2), (16, 17, 1)]);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| {
            let least = index.checked_sub(1).map_or(0, |below| upper_edge(below).saturating_add(1));
            (least, upper_edge(index), count)
        })
    }

    /// Number of values counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exact; 0 when empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, exact; 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The upper edge of the bucket that holds quantile `q` (0 … 1), never above the maximum;
    /// 0 when empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64) as u64;
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen > rank {
                return upper_edge(index).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let exponent = value.ilog2();
    let shift = exponent - SUB.ilog2();
    let sub = (value >> shift) as usize & (SUB - 1);
    SUB + shift as usize * SUB + sub
}

fn upper_edge(index: usize) -> u64 {
    if index < SUB {
        return index as u64;
    }
    let shift = (index - SUB) / SUB;
    let sub = (index - SUB) % SUB;
    let next = (SUB + sub + 1) as u128;
    u64::try_from((next << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_below_its_bucket_edge_and_above_the_previous() {
        let edges = (0..64).flat_map(|e| [1_u64 << e, (1 << e) + 1, (1 << e) - 1, u64::MAX >> e]);
        for value in edges {
            let index = bucket(value);
            assert!(value <= upper_edge(index), "{value}");
            assert!(index == 0 || value > upper_edge(index - 1), "{value}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn what_was_counted_since_is_what_was_counted_alone() {
        let (mut both, mut alone) = (Histogram::default(), Histogram::default());
        (0..1_000).for_each(|v| both.record(v * v));
        let earlier = both.clone();
        for value in [0, 3, 8, 8, 90, 1_000] {
            both.record(value);
            alone.record(value);
        }
        let since = both.since(&earlier);
        assert_eq!((since.buckets, since.count, since.sum), (alone.buckets, 6, alone.sum));
        assert!((1_000..=1_125).contains(&since.max()));
        let nothing = both.since(&both);
        assert_eq!((nothing.count(), nothing.max(), nothing.quantile(0.5)), (0, 0, 0));
        assert_eq!(earlier.since(&both).count(), 0);
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let mut h = Histogram::default();
        (0..10_000).for_each(|v| h.record(v));
        for q in [0.1, 0.5, 0.9, 0.99] {
            let exact = q * 10_000.0;
            let got = h.quantile(q) as f64;
            assert!(got >= exact && got <= exact * 1.126, "{q}: {got}");
        }
        assert_eq!(h.quantile(1.0), 9_999);
        assert_eq!(Histogram::default().quantile(0.5), 0);
    }
}
