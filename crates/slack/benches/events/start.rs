//! Cold starts: the time from process start to first response, over TLS, of the deployed `slack-events` and of the handler in
//! Node.
//!
//! Both get the same signed event and read their secret from SSM. `slack-events` then claims, hands over and completes. The
//! handler in Node marks and hands over, which is one call less. Nothing is kept between two starts.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::{Instance, accepted};

/// What is promised.
const TIMES: f64 = 25.0;
const MEGABYTES: f64 = 12.0;
/// Starts of each, unless `RUNS` says otherwise.
const RUNS: usize = 30;

/// The store's certificate, and the authority that signed it.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) authority: PathBuf,
}

impl Tls {
    /// From `cert.pem`, `key.pem` and `ca.pem`.
    fn of(directory: &Path) -> Self {
        let certificate = CertificateDer::from_pem_file(directory.join("cert.pem")).expect("cert.pem");
        let key = PrivateKeyDer::from_pem_file(directory.join("key.pem")).expect("key.pem");
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a key that fits the certificate");
        // The same as DynamoDB's.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let authority = directory.join("ca.pem").canonicalize().expect("ca.pem");
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), authority }
    }
}

struct Start {
    ms: f64,
    megabytes: f64,
}

async fn start(command: &[&str], tls: &Tls) -> Start {
    let mut made = Command::new(command[0]);
    made.args(&command[1..]);
    let instance = Instance::start(made, Some(tls)).await;
    accepted(instance.deliver(0)).await;
    Start { ms: instance.begun.elapsed().as_secs_f64() * 1e3, megabytes: instance.memory() }
}

/// A percentile of one measurement over all starts.
fn percentile(starts: &[Start], share: f64, of: fn(&Start) -> f64) -> f64 {
    let mut numbers: Vec<f64> = starts.iter().map(of).collect();
    numbers.sort_by(f64::total_cmp);
    numbers[((numbers.len() - 1) as f64 * share) as usize]
}

/// `directory` holds the certificates and Node's bundled handler.
pub(crate) fn compare(directory: &str) -> ExitCode {
    let directory = Path::new(directory);
    let runs = std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS).max(1);
    let tls = Tls::of(directory);
    let handler = directory.join("handler.mjs").to_string_lossy().into_owned();
    let binary = std::env::var("BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_slack-events").to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let contenders: [(&str, Vec<&str>); 2] = [("ichido", vec![&binary]), ("Node", vec!["node", &handler])];
    let mut starts: [Vec<Start>; 2] = Default::default();
    // They take turns. The first run of each only warms the page cache.
    for run in 0..=runs {
        for ((_, command), starts) in contenders.iter().zip(&mut starts) {
            let measured = runtime.block_on(start(command, &tls));
            if run > 0 {
                starts.push(measured);
            }
        }
    }
    let mut out = std::io::stdout();
    let _ = writeln!(out, "process start to first response, {runs} starts each, TLS store on loopback");
    let _ = writeln!(out, "{:<10}{:>12}{:>10}{:>14}", "", "median ms", "p90 ms", "resident MB");
    for ((name, _), starts) in contenders.iter().zip(&starts) {
        let (median, late) = (percentile(starts, 0.5, |start| start.ms), percentile(starts, 0.9, |start| start.ms));
        let megabytes = percentile(starts, 0.5, |start| start.megabytes);
        let _ = writeln!(out, "{name:<10}{median:>12.1}{late:>10.1}{megabytes:>14.1}");
    }
    let times = percentile(&starts[1], 0.5, |start| start.ms) / percentile(&starts[0], 0.5, |start| start.ms);
    let megabytes = percentile(&starts[0], 0.5, |start| start.megabytes);
    let kept = times >= TIMES && megabytes < MEGABYTES;
    let result = if kept { "kept" } else { "NOT KEPT" };
    let _ = writeln!(
        out,
        "{result}: {times:.1} times faster (promised: {TIMES}) in {megabytes:.1} MB (promised: under {MEGABYTES})"
    );
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
