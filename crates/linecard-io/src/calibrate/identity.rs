//! Identifies the machine on which costs were measured.

use serde::{Deserialize, Serialize};
use std::fs;
use std::thread;

/// The properties of a machine that costs depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The processor, as the kernel names it.
    pub model: String,
    /// Its microcode version, if the kernel reports it.
    pub microcode: Option<String>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The frequency governor of the first core, if it can be read.
    pub governor: Option<String>,
}

impl Identity {
    /// The identity of this machine.
    ///
    /// ```
    /// use linecard_io::calibrate::Identity;
    /// let here = Identity::of_this_host();
    /// assert!(here.cores > 0 && here.refusal(&here).is_none());
    /// ```
    #[must_use]
    pub fn of_this_host() -> Self {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        Self {
            // Not all architectures report a processor name.
            model: field(&processors, "model name").unwrap_or_else(|| "unknown".to_owned()),
            microcode: field(&processors, "microcode"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        }
    }

    /// Why costs measured on `self` are not valid on `here`: the processor differs. Another kernel
    /// or governor is accepted.
    #[must_use]
    pub fn refusal(&self, here: &Self) -> Option<String> {
        let microcode = |identity: &Self| identity.microcode.clone().unwrap_or("none".into());
        let pairs = [
            ("processor", self.model.clone(), here.model.clone()),
            ("microcode", microcode(self), microcode(here)),
            ("number of cores", self.cores.to_string(), here.cores.to_string()),
        ];
        let other = pairs.into_iter().find(|(_, measured, here)| measured != here);
        other.map(|(what, measured, here)| format!("its {what} is {measured}, here it is {here}"))
    }

    /// Differences that may not matter.
    #[must_use]
    pub fn remark(&self, here: &Self) -> Option<String> {
        let governor = |identity: &Self| identity.governor.clone().unwrap_or("none".into());
        let pairs = [
            ("kernel", self.kernel.clone(), here.kernel.clone()),
            ("governor", governor(self), governor(here)),
        ];
        let other = pairs.into_iter().find(|(_, measured, here)| measured != here);
        other.map(|(what, measured, here)| format!("{what} {measured} then, {here} now"))
    }
}

/// The first value of a key of /proc/cpuinfo.
fn field(text: &str, key: &str) -> Option<String> {
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_processor_is_refused_and_another_kernel_is_not() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\nmicrocode\t: 0xa1\n\nprocessor\t: 1\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU"));
        assert_eq!(field(text, "microcode").as_deref(), Some("0xa1"));
        assert_eq!(field(text, "flags"), None);
        let here = Identity {
            model: "A".into(),
            microcode: None,
            cores: 2,
            kernel: "6.18".into(),
            governor: None,
        };
        let other = Identity { model: "B".into(), ..here.clone() };
        assert_eq!(other.refusal(&here).as_deref(), Some("its processor is B, here it is A"));
        let smaller = Identity { cores: 1, ..here.clone() };
        assert!(smaller.refusal(&here).is_some_and(|why| why.contains("cores is 1, here it is 2")));
        let newer = Identity { kernel: "6.19".into(), ..here.clone() };
        assert_eq!((newer.refusal(&here), here.remark(&here)), (None, None));
        assert_eq!(newer.remark(&here).as_deref(), Some("kernel 6.19 then, 6.18 now"));
    }
}
