//! The machine on which a measurement was made.

use serde::Serialize;

/// A machine, as far as it says what it is.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The operating system and its version.
    pub system: String,
    /// `true` if this program was built with optimisations: figures of one that was not mean nothing.
    pub optimised: bool,
    /// The day, UTC.
    pub date: String,
    /// The governor of the processor's frequency; absent where the system does not say, as in most virtual machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// The cores that this process may use, such as `0-3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// `true` if this is a virtual machine, as far as the processor says.
    pub is_virtual: bool,
    /// The control group's share of processors, `cpu.max`, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<String>,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        let line = |path: &str| Some(read(path).trim().to_owned()).filter(|text| !text.is_empty());
        let flags = field(&read("/proc/cpuinfo"), "flags").unwrap_or_default();
        Self {
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            affinity: field(&read("/proc/self/status"), "Cpus_allowed_list"),
            is_virtual: flags.split_whitespace().any(|flag| flag == "hypervisor"),
            cpu_quota: line("/sys/fs/cgroup/cpu.max").filter(|quota| !quota.starts_with("max")),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory.map_or(0, |kib| kib >> 10),
            system: format!("{} {}", std::env::consts::OS, read("/proc/sys/kernel/osrelease").trim()),
            optimised: !cfg!(debug_assertions),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        }
    }
}

/// Runnable threads of the whole machine, averaged over the last minute; 0 where the system does not say.
#[must_use]
pub fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// Resident memory of this process; 0 where the system does not say.
#[must_use]
pub fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4)
}
