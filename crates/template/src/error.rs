use std::path::PathBuf;

/// Why a template cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not YAML.
    #[error("the template is not YAML: {0}")]
    Yaml(#[from] serde_yaml_ng::Error),
    /// A parameter has neither a value nor a default.
    #[error("the parameter {0} has no default, and no value was given for it")]
    NoValue(String),
    /// `Ref`, `Fn::Sub` or `Fn::GetAtt` names something that the template does not have.
    #[error("{at} refers to {name}, which the template does not have")]
    Unknown { at: String, name: String },
    /// An intrinsic function that this crate does not know, or whose arguments have the wrong form.
    #[error("{at}: cannot resolve {what}")]
    NotUnderstood { at: String, what: String },
    /// Something that a resource of its type must have.
    #[error("{at}: {what} is missing")]
    Missing { at: String, what: &'static str },
    /// A file that a parameter stands for.
    #[error("cannot read the file {}", .path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why it cannot be read.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn missing(at: &str, what: &'static str) -> Self {
        Self::Missing { at: at.to_owned(), what }
    }

    pub(crate) fn unknown(at: &str, name: &str) -> Self {
        Self::Unknown { at: at.to_owned(), name: name.to_owned() }
    }

    pub(crate) fn not_understood(at: &str, what: impl Into<String>) -> Self {
        Self::NotUnderstood { at: at.to_owned(), what: what.into() }
    }
}
