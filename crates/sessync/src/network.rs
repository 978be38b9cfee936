//! The way to BigQuery as the environment says, opened when the first call is made.
//!
//! A run with nothing to send opens no connection, loads no certificate and reads no key.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::auth::{Credentials, Places};
use crate::transport::{self, Error, Http, Request, Response, Transport};

/// Where to go, and as whom.
#[derive(Debug, Clone)]
pub enum Target {
    /// `BIGQUERY_EMULATOR_HOST`: no credentials are needed.
    Emulator(String),
    Google {
        key_path: Option<PathBuf>,
        places: Places,
    },
}

/// The way there.
#[derive(Debug)]
pub struct Network {
    target: Target,
    http: OnceLock<Http>,
}

impl Network {
    pub fn new(target: Target) -> Network {
        Network { target, http: OnceLock::new() }
    }

    fn http(&self) -> Result<&Http, Error> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let client = transport::client()?;
        let http = match &self.target {
            Target::Emulator(host) => Http::emulator(client, host),
            Target::Google { key_path: Some(path), .. } => Http::google(client, Credentials::from_file(path)?),
            Target::Google { key_path: None, places } => Http::google(client, Credentials::default_from(places)?),
        };
        Ok(self.http.get_or_init(|| http))
    }
}

impl Transport for Network {
    async fn call(&self, request: Request, timeout: Duration) -> Result<Response, Error> {
        self.http()?.call(request, timeout).await
    }
}
