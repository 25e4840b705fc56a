//! Arguments and figures of benchmarks in rounds.

/// The number of rounds: that behind `--rounds`, or this one. None with `--smoke`, and where cargo tests the benchmark.
pub(crate) fn rounds(otherwise: usize) -> Option<usize> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    // Cargo adds --bench.
    let is_bench = has("--bench") && !has("--smoke");
    let at = arguments.iter().position(|argument| argument == "--rounds");
    let rounds = at.and_then(|at| arguments.get(at + 1)?.parse().ok());
    is_bench.then(|| rounds.unwrap_or(otherwise))
}

/// The median; 0 of no figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
