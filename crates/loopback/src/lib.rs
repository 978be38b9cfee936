//! What a server on loopback needs: a check that a request is meant for this machine and comes from no foreign page, a check of the
//! address of a service that it uses, and its end.
//!
//! A foreign web page that is open in the same browser can send requests to loopback, and a foreign DNS name can point to
//! loopback. So the `Host` header must be a loopback address, and so must the `Origin` header, if there is one. A picture or a script
//! that a page embeds is asked for without an `Origin`, but browsers say that the page is of another site (`Sec-Fetch-Site`).

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, Uri};

/// Checks a request.
///
/// # Errors
/// Why it is refused, for the end of a sentence.
pub fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    // HTTP/2 names the host in the address, and a request may have the header as well: what reads either must read this machine.
    let in_address = uri.authority().map(|authority| authority.as_str().to_owned());
    let mut hosts = in_address.into_iter().chain(text("host")).peekable();
    if hosts.peek().is_none() {
        return Err("the request has no Host header".to_owned());
    }
    if let Some(host) = hosts.find(|host| !is_loopback(host)) {
        return Err(format!("the host {host:?} is not this machine"));
    }
    if let Some(origin) = text("origin") {
        let of_origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if !of_origin.is_some_and(is_loopback) {
            return Err(format!("the origin {origin:?} is not this machine"));
        }
    }
    // A navigation is answered, whether a person followed a link or the page began it: the other page cannot read the answer.
    let is_navigation =
        text("sec-fetch-mode").as_deref() == Some("navigate") && text("sec-fetch-dest").as_deref() == Some("document");
    if text("sec-fetch-site").as_deref() == Some("cross-site") && !is_navigation {
        return Err("the request comes from a page of another site".to_owned());
    }
    Ok(())
}

/// The address of a service, as it is given on a command line. The AWS SDK panics on what this refuses.
///
/// # Errors
/// What it must be, for the end of a sentence.
pub fn endpoint(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let names_a_host =
        address.is_some_and(|address| address.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '['));
    if names_a_host && text.parse::<Uri>().is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty())) {
        Ok(text.to_owned())
    } else {
        Err("it must begin with http:// or https:// and name a host".to_owned())
    }
}

/// Whether an [`endpoint`] is on this machine.
#[must_use]
pub fn is_this_machine(endpoint: &str) -> bool {
    endpoint.parse::<Uri>().is_ok_and(|uri| uri.authority().is_some_and(|authority| is_loopback(authority.as_str())))
}

/// Ends with Ctrl-C, or when the process is told to end. Listens for signals from the call on, not only while somebody waits.
#[cfg(unix)]
pub fn stopped() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
            let _ = tokio::signal::ctrl_c().await;
            return;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Ends with Ctrl-C.
#[cfg(not(unix))]
pub async fn stopped() {
    let _ = tokio::signal::ctrl_c().await;
}

/// Whether a text is a loopback address, and a port if there is one. The whole text must be that: a name that goes on after the
/// address (`[::1].evil.example`), or a user before the host (`localhost:80@evil.example`), is somebody else's.
fn is_loopback(host_and_port: &str) -> bool {
    let (is_local, port) = match host_and_port.strip_prefix('[') {
        Some(v6) => match v6.split_once(']') {
            Some((address, port)) => (address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()), port),
            None => return false,
        },
        None => {
            let (host, port) = host_and_port.split_at(host_and_port.find(':').unwrap_or(host_and_port.len()));
            let is_address = host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
            (is_address || host.eq_ignore_ascii_case("localhost"), port)
        }
    };
    is_local && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        for host in ["127.0.0.1:8787", "localhost", "LocalHost:1", "[::1]:8787", "127.0.0.2"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "example.com",
            "127.0.0.1.example.com:80",
            "localhost.example.com",
            "192.168.0.1:8787",
            "",
            "0.0.0.0",
            "localhost:80@evil.example",
            "localhost:80@evil.example:80",
            "127.0.0.1@evil.example",
            "[::1].evil.example",
            "[::1]evil.example:80",
            "[::1]:80@evil.example",
            "[::1",
            "::1",
            "localhost:",
            "localhost:+80",
            "localhost:99999",
            "localhost/evil.example",
            "localhost ",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn an_endpoint_that_the_sdk_cannot_use_is_refused() {
        for good in ["http://127.0.0.1:8787", "https://dynamodb.eu-west-1.amazonaws.com", "http://[::1]:8787/base"] {
            assert_eq!(endpoint(good).as_deref(), Ok(good));
        }
        for bad in ["", " ", "banana", "127.0.0.1:8787", "http://", "http:///x", "http://a b", "ftp://127.0.0.1"] {
            assert!(endpoint(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_an_endpoint_on_loopback_is_on_this_machine() {
        for here in ["http://127.0.0.1:8000", "http://localhost:8000/", "https://[::1]:8000", "http://LOCALHOST"] {
            assert!(is_this_machine(here), "{here}");
        }
        for elsewhere in [
            "https://dynamodb.eu-west-1.amazonaws.com",
            "http://127.0.0.1.example.com",
            "http://localhost:80@evil.example",
            "http://192.168.0.1:8000",
            "http://0.0.0.0:8000",
            "banana",
        ] {
            assert!(!is_this_machine(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_foreign_page_is_refused_and_a_tool_without_an_origin_is_not() {
        let check = |pairs: &[(&'static str, &str)]| {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")))
                .collect();
            super::check(&Uri::from_static("/"), &headers)
        };
        assert!(check(&[("host", "127.0.0.1:8787")]).is_ok());
        assert!(check(&[("host", "localhost:8787"), ("origin", "http://localhost:3000")]).is_ok());
        assert!(check(&[("host", "127.0.0.1:8787"), ("origin", "https://example.com")]).is_err());
        assert!(check(&[("host", "127.0.0.1:8787"), ("origin", "https://[::1]:8789")]).is_ok());
        for origin in [
            "null",
            "http://localhost:80@evil.example",
            "http://[::1].evil.example",
            "http://127.0.0.1:80#@evil.example",
            "http://localhost/",
            "localhost",
            "file://localhost",
            "http://http://localhost",
        ] {
            assert!(check(&[("host", "127.0.0.1:8787"), ("origin", origin)]).is_err(), "{origin}");
        }
        assert!(check(&[("host", "rebound.example:8787")]).is_err());
        assert!(check(&[]).is_err());
        let both = |address: &str, host: &'static str| {
            let headers = HeaderMap::from_iter([(http::header::HOST, http::HeaderValue::from_static(host))]);
            super::check(&address.parse().expect("an address"), &headers)
        };
        assert!(both("https://127.0.0.1:8787/", "127.0.0.1:8787").is_ok());
        assert!(both("https://127.0.0.1:8787/", "rebound.example").is_err(), "HTTP/2 can have both");
        assert!(both("https://rebound.example/", "127.0.0.1:8787").is_err());
        let fetched = |site: &str, mode: &str, dest: &str| {
            let host = ("host", "127.0.0.1:8787");
            check(&[host, ("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)])
        };
        for (mode, dest) in [("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe"), ("cors", "empty")] {
            assert!(fetched("cross-site", mode, dest).is_err(), "{mode} {dest}");
            for site in ["same-origin", "same-site", "none"] {
                assert!(fetched(site, mode, dest).is_ok(), "{site} {mode} {dest}");
            }
        }
        assert!(check(&[("host", "127.0.0.1:8787"), ("sec-fetch-site", "cross-site")]).is_err());
        assert!(fetched("cross-site", "navigate", "document").is_ok(), "a navigation");
    }
}
