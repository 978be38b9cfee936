//! The CPU that the operating system charges a process.

use std::time::Duration;

/// User and system time of all threads of a process so far; zero if the process is gone.
#[cfg(target_os = "linux")]
pub(crate) fn of(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    // The kernel counts it in nanoseconds. A thread that has ended is not in the list; the workers' threads live as long as they do.
    let nanos = threads.map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        stat.split_whitespace().next().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// User and system time of a process so far, as `ps` prints it (`[[DD-]HH:]MM:SS[.CC]`); zero if the process is gone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn of(process: u32) -> Duration {
    let printed = std::process::Command::new("ps").args(["-o", "cputime=", "-p", &process.to_string()]).output();
    let printed = printed.map(|printed| String::from_utf8_lossy(&printed.stdout).into_owned()).unwrap_or_default();
    parse(printed.trim())
}

#[cfg(any(test, not(target_os = "linux")))]
fn parse(text: &str) -> Duration {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let seconds = rest.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap_or(0.0));
    Duration::from_secs_f64(days.parse::<f64>().unwrap_or(0.0) * 86_400.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_ps_prints_is_understood() {
        assert_eq!(parse("0:01.50"), Duration::from_millis(1500));
        assert_eq!(parse("01:02:03"), Duration::from_secs(3723));
        assert_eq!(parse("1-00:00:01"), Duration::from_secs(86_401));
        assert_eq!(parse(""), Duration::ZERO);
    }

    #[test]
    fn this_process_has_used_some() {
        assert!(of(std::process::id()) > Duration::ZERO);
        assert_eq!(of(u32::MAX), Duration::ZERO);
    }
}
