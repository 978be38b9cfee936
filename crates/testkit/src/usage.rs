//! What the operating system charges this process, for benchmarks. Linux counts it; elsewhere everything is zero.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// The CPU time of all threads of this process so far, user and system, in nanoseconds. Threads that have ended do not count any more.
#[must_use]
pub fn cpu() -> Duration {
    bring_up_to_date();
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|thread| scheduled(&thread.path())).sum()
}

/// The CPU time of all processes that this one has started and waited for, in steps of 10 ms.
#[must_use]
pub fn cpu_of_children() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name of the program, which may contain anything, the 14th and the 15th field are those of the children.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// A thread of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number for the kernel; empty if there is none.
    number: String,
}

impl Thread {
    /// The thread that asks.
    #[must_use]
    pub fn current() -> Self {
        // The link leads to `PROCESS/task/THREAD`.
        let path = fs::read_link("/proc/thread-self").unwrap_or_default();
        Self { number: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default() }
    }

    /// Its CPU time so far.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        bring_up_to_date();
        scheduled(&Path::new("/proc/self/task").join(&self.number))
    }
}

/// The kernel counts a thread's time when the thread waits, or every few milliseconds. So the thread that asks waits for an instant.
fn bring_up_to_date() {
    std::thread::sleep(Duration::from_nanos(1));
}

fn scheduled(thread: &Path) -> Duration {
    let stat = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// The resident memory of this process in bytes.
#[must_use]
pub fn resident() -> u64 {
    status("self", "VmRSS:")
}

/// The most resident memory that this process has had, since its start or since [`forget_peak`].
#[must_use]
pub fn peak() -> u64 {
    status("self", "VmHWM:")
}

/// The most resident memory that another process has had so far; zero if it is gone.
#[must_use]
pub fn peak_of(process: u32) -> u64 {
    status(&process.to_string(), "VmHWM:")
}

/// Lets [`peak`] count from now on.
pub fn forget_peak() {
    // Where the kernel does not allow it, the peak is that of the whole life.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn status(process: &str, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_this_thread_have_used_some() {
        let me = Thread::current();
        let until = std::time::Instant::now() + Duration::from_millis(20);
        while std::time::Instant::now() < until {}
        let before = me.cpu();
        assert!(before > Duration::ZERO);
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_micros(300) {}
        assert!(me.cpu() > before, "also what took less than a tick of the kernel counts");
        assert!(cpu() >= me.cpu());
        assert!(resident() > 1_000_000 && peak() >= 1_000_000, "{} {}", resident(), peak());
        assert!(peak_of(std::process::id()) > 1_000_000);
        assert_eq!(peak_of(u32::MAX), 0);
    }

    #[test]
    fn what_was_given_back_is_in_the_peak() {
        forget_peak();
        let before = resident();
        let block = vec![1_u8; 64 << 20];
        assert_eq!(block.iter().filter(|byte| **byte == 1).count(), block.len());
        drop(block);
        assert!(peak() >= before + (60 << 20), "{} {before}", peak());
    }

    #[test]
    fn a_child_that_has_ended_counts() {
        let before = cpu_of_children();
        let spins = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", spins]).status().unwrap().success());
        assert!(cpu_of_children() > before);
    }
}
