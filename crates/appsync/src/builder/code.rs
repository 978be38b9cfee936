//! Finds the text of resolvers, functions and schemas.

use std::path::{Path, PathBuf};

use super::Error;
use crate::wiring::Code;

/// The directory with the files that a template names, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodeDir(Option<PathBuf>);

impl CodeDir {
    pub(super) fn at(path: PathBuf) -> Self {
        Self(Some(path))
    }

    /// The file whose path is the longest end of `location`: its path in the directory, and where it is. `looking` is told each
    /// place before it is looked at.
    pub(crate) fn find(&self, location: &str, looking: &dyn Fn(&Path)) -> Option<(String, PathBuf)> {
        let dir = self.0.as_deref()?;
        let location = location.split_once("://").map_or(location, |(_, rest)| rest);
        let parts: Vec<&str> = location.split('/').filter(|part| !matches!(*part, "" | "." | "..")).collect();
        (0..parts.len()).find_map(|from| {
            let path = parts[from..].join("/");
            let file = dir.join(&path);
            looking(&file);
            file.is_file().then_some((path, file))
        })
    }

    /// The text, and its path in the directory if it is that of a file.
    pub(super) fn read(&self, code: &Code, looking: &dyn Fn(&Path)) -> Result<(Option<String>, String), Error> {
        let location = match code {
            Code::Path(location) => location,
            // A template may take code as a parameter whose default is the path of a file. A deployment replaces it by the text
            // of the file. So a text that is the path of a file stands for that file.
            Code::Inline(text) if self.is_file(text, looking) => text,
            Code::Inline(text) => return Ok((None, text.clone())),
        };
        let (path, file) = self.find(location, looking).ok_or_else(|| Error::NoFile(location.clone()))?;
        let text = std::fs::read_to_string(&file).map_err(|source| Error::Read { path: file, source })?;
        Ok((Some(path), text))
    }

    fn is_file(&self, text: &str, looking: &dyn Fn(&Path)) -> bool {
        let path_like = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '{');
        path_like && self.find(text, looking).is_some()
    }
}
