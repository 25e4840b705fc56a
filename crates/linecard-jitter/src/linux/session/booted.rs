//! Sources of jitter that are decided before a measurement: how the kernel was booted, sleep states, and frequency.

use std::fs;

/// Parameters of the kernel's command line that the paper's table I lists, or that do the same.
const PARAMETERS: [&str; 9] = [
    "isolcpus",
    "nohz_full",
    "nohz",
    "rcu_nocbs",
    "rcu_nocb_poll",
    "idle",
    "intel_idle.max_cstate",
    "processor.max_cstate",
    "intel_pstate",
];

/// Facts about a core of this host that no experiment changes: boot parameters, the driver of its sleep states, and who
/// chooses its frequency. What this host does not have is left out.
///
/// ```
/// use linecard_jitter::linux::session::booted;
/// assert_eq!(booted(0)[0].0, "boot parameters");
/// ```
#[must_use]
pub fn booted(core: u16) -> Vec<(&'static str, String)> {
    let read = |path: String| {
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let line = read("/proc/cmdline".to_owned()).unwrap_or_default();
    let mut facts = vec![("boot parameters", parameters(&line))];
    let folder = "/sys/devices/system/cpu";
    if let Some(driver) = read(format!("{folder}/cpuidle/current_driver")).filter(|it| it != "none")
    {
        facts.push(("sleep states", driver));
    }
    if let Some(governor) = read(format!("{folder}/cpu{core}/cpufreq/scaling_governor")) {
        facts.push(("frequency", format!("governor {governor}")));
    }
    facts
}

fn parameters(line: &str) -> String {
    let is_ours = |word: &&str| PARAMETERS.contains(&word.split('=').next().unwrap_or_default());
    let found: Vec<&str> = line.split_whitespace().filter(is_ours).collect();
    if found.is_empty() { "none that isolate a core".to_owned() } else { found.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_of_the_paper_are_found() {
        let line =
            "BOOT_IMAGE=/vmlinuz quiet isolcpus=3 nohz_full=3 idle=poll rcu_nocb_poll idlex=1";
        assert_eq!(parameters(line), "isolcpus=3 nohz_full=3 idle=poll rcu_nocb_poll");
        assert_eq!(parameters("quiet"), "none that isolate a core");
    }
}
