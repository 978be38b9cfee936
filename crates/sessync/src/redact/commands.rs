//! Passwords on command lines whose options do not say what they are: `curl -u user:…`, `mysql -p…`, `redis-cli -a …`.

use super::scan::{Scanner, is_bare};
use super::value::is_reference;

/// How a program takes a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// `-p password`
    Password,
    /// `-ppassword`, because `-p` alone asks for it
    Attached,
    /// `-u user:password`
    AfterColon,
    /// `-U user%password`
    AfterPercent,
}

use Takes::{AfterColon, AfterPercent, Attached, Password};

/// The option, a part of the command, and how it takes the password. `-storepass` and the like are told by their
/// whole name.
const OPTIONS: &[(&str, &str, Takes)] = &[
    ("-u", "curl", AfterColon),
    ("-u", "wget", AfterColon),
    ("-u", "http ", AfterColon),
    ("-a", "http ", AfterColon),
    ("-a", "https ", AfterColon),
    ("-a", "redis-cli", Password),
    ("-w", "ldap", Password),
    ("-U", "smbclient", AfterPercent),
    ("-U", "rpcclient", AfterPercent),
    ("-p", "mysql", Attached),
    ("-p", "mariadb", Attached),
    ("-p", "sshpass", Password),
    ("-p", "docker login", Password),
    ("-p", "podman login", Password),
    ("-P", "zip ", Password),
    ("-P", "sqlcmd", Password),
    ("-N", "ssh-keygen", Password),
    ("-storepass", "", Password),
    ("-keypass", "", Password),
    ("-srcstorepass", "", Password),
    ("-b", "secret set", Password),
];

impl Scanner<'_> {
    /// The command up to here.
    fn command(&self, at: usize) -> &[u8] {
        let before = &self.text[at.saturating_sub(200)..at];
        before.rsplit(|byte| matches!(byte, b'\n' | b';' | b'|')).next().unwrap_or_default()
    }

    pub(super) fn short_option(&mut self, at: usize) -> Option<usize> {
        let end = self.run_within(at + 1, 16, |byte| byte.is_ascii_lowercase());
        let letter = &self.text[at..at + 2];
        let word = &self.text[at..end];
        let command = self.command(at);
        let runs = |name: &str| name.is_empty() || memchr::memmem::find(command, name.as_bytes()).is_some();
        let is = |option: &str| option.as_bytes() == letter && !option.is_empty() || option.as_bytes() == word;
        let (option, _, takes) = *OPTIONS.iter().find(|(option, name, _)| is(option) && runs(name))?;
        let from = at + option.len();
        let is_attached = !matches!(self.byte(from), b' ' | b'"' | b'\'' | b'\\' | b',');
        if takes == Attached && !is_attached || takes == Password && is_attached && option.len() > 2 {
            return None;
        }
        self.password(from, takes)
    }

    /// `--user=name:password`, `gh secret set NAME --body …`, `aws ssm put-parameter --value …`
    pub(super) fn long_option(&mut self, at: usize, end: usize) -> Option<usize> {
        let takes = match &self.text[at + 2..end] {
            b"user" | b"proxy-user" | b"auth" => AfterColon,
            b"body" | b"value" => Password,
            _ => return None,
        };
        let command = self.command(at);
        let runs = |name: &str| memchr::memmem::find(command, name.as_bytes()).is_some();
        let is_asked = match takes {
            AfterColon => runs("curl") || runs("wget") || runs("http"),
            _ => runs("secret set") || runs("put-parameter") && runs("SecureString"),
        };
        let from = if self.byte(end) == b'=' { end + 1 } else { end };
        if is_asked { self.password(from, takes) } else { None }
    }

    fn password(&mut self, from: usize, takes: Takes) -> Option<usize> {
        let value = self.value(from)?;
        let text = &self.text[value.place.clone()];
        let start = match takes {
            Password | Attached => 0,
            AfterColon => memchr::memchr(b':', text)? + 1,
            AfterPercent => memchr::memchr(b'%', text)? + 1,
        };
        let least = if start > 0 { 3 } else { 4 };
        let password = &text[start..];
        let is_secret = password.len() >= least && !is_reference(password) && !password.starts_with(b"-");
        is_secret.then(|| self.hit(value.place.start + start..value.place.end, "assignment"))
    }

    /// `echo 'user:password' | chpasswd`, `echo password | sudo -S`
    pub(super) fn piped(&mut self, at: usize) -> Option<usize> {
        let next = self.run_within(at + 1, 4, |byte| byte == b' ');
        let rest = &self.text[next..];
        let takes_pair = rest.starts_with(b"chpasswd") || rest.starts_with(b"sudo chpasswd");
        if !takes_pair && !rest.starts_with(b"sudo -S") && !rest.starts_with(b"passwd --stdin") {
            return None;
        }
        let is_edge = |byte: &u8| matches!(byte, b' ' | b'"' | b'\'' | b'\\');
        let end = self.text[..at].iter().rposition(|byte| !is_edge(byte))? + 1;
        let length = self.text[..end].iter().rev().take(200).take_while(|byte| is_bare(**byte)).count();
        let word = &self.text[end - length..end];
        let colon = if takes_pair { memchr::memchr(b':', word)? + 1 } else { 0 };
        let is_echoed = memchr::memmem::find(&self.text[end.saturating_sub(220)..end - length], b"echo").is_some();
        if is_echoed && word.len() - colon >= 3 && !is_reference(&word[colon..]) {
            self.hit_before(end - length + colon..end, "assignment");
        }
        Some(next)
    }
}
