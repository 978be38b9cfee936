use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::document::Depth;
use crate::json::{members, text_of};
use crate::{Document, Error};

/// A template in which everything is resolved.
#[derive(Clone, Debug)]
pub struct Template {
    /// `Metadata`, not resolved.
    pub metadata: Value,
    /// The values of all parameters.
    pub parameters: BTreeMap<String, Value>,
    /// Every resource whose condition holds.
    pub resources: BTreeMap<String, Resource>,
    /// Outputs by name.
    pub outputs: BTreeMap<String, Value>,
}

/// One resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// `AWS::DynamoDB::Table`, …
    pub kind: String,
    /// Its properties, resolved.
    pub properties: Value,
}

/// The parameters whose names end with `File`, each with the text of the file below `dir` that its default names.
///
/// A deployment puts the text in the place of the path; a local reader passes these parameters to get the same.
///
/// # Errors
/// When the template or one of the files cannot be read.
pub fn file_parameters(text: &str, dir: &Path) -> Result<Vec<(String, String)>, Error> {
    let of_dir = |error| match error {
        Error::File { path, source } => Error::File { path: dir.join(path), source },
        other => other,
    };
    file_parameters_with(text, |path| std::fs::read_to_string(dir.join(path))).map_err(of_dir)
}

/// The same, for files that are read in another way: they may be part of a program.
///
/// # Errors
/// When the template or one of the files cannot be read.
pub fn file_parameters_with(
    text: &str,
    read: impl Fn(&str) -> std::io::Result<String>,
) -> Result<Vec<(String, String)>, Error> {
    let document: Value = serde_yaml_ng::from_str(text)?;
    let files = members(&document["Parameters"]).filter(|(name, _)| name.ends_with("File"));
    files
        .map(|(name, declared)| {
            let path = text_of(&declared["Default"]).unwrap_or_default();
            let text = read(&path).map_err(|source| Error::File { path: path.clone().into(), source })?;
            Ok((name.clone(), text))
        })
        .collect()
}

impl Template {
    /// Reads a template. `parameters` replace its defaults; those that it does not declare are ignored.
    ///
    /// # Errors
    /// When something in it cannot be resolved.
    pub fn read(text: &str, parameters: &BTreeMap<String, Value>) -> Result<Self, Error> {
        let document = Document::read(text, parameters)?;
        for (name, _) in members(&document.text["Parameters"]) {
            document.reference(name, name, Depth::zero(&Cell::default()))?;
        }
        let mut resources = BTreeMap::new();
        for (id, resource) in members(&document.text["Resources"]) {
            if document.is_there(id, resource)? {
                let properties = document.properties(id)?;
                let kind = text_of(&resource["Type"]).ok_or_else(|| Error::missing(id, "Type"))?;
                resources.insert(id.clone(), Resource { kind, properties });
            }
        }
        let mut outputs = BTreeMap::new();
        for (name, output) in members(&document.text["Outputs"]) {
            if document.is_there(name, output)?
                && let Some(value) = document.value(&output["Value"], name, Depth::zero(&Cell::default()))?
            {
                outputs.insert(name.clone(), value);
            }
        }
        let metadata = document.text["Metadata"].clone();
        Ok(Self { metadata, parameters: document.parameters, resources, outputs })
    }

    /// The resources of one type, by logical id.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let of_kind = self.resources.iter().filter(move |(_, resource)| resource.kind == kind);
        of_kind.map(|(id, resource)| (id.as_str(), &resource.properties))
    }
}
