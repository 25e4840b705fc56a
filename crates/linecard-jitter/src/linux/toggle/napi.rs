//! The kernel threads that poll interfaces (threaded NAPI).

use std::fs;

/// The kernel threads that poll an interface of this name, in any namespace: for
/// [`Setting::thread`](crate::linux::setting::Setting::thread).
#[must_use]
pub fn napi_threads(interface: &str) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|process| is_napi_thread(*process, interface)).collect()
}

/// Names are `napi/INTERFACE-NUMBER`, truncated to 15 bytes.
fn is_napi_thread(process: u32, interface: &str) -> bool {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let begin = format!("napi/{interface}-");
    name.trim_end().starts_with(begin.get(..begin.len().min(15)).unwrap_or(&begin))
}
