//! How the parts of an API belong together, read from its CloudFormation template.
//!
//! A template has one `AWS::AppSync::GraphQLApi`. If it uses something that this crate does not have (other data sources, mapping
//! templates, caches, versioned tables), it is refused with an error that says what. Resources of other services are read only
//! where the API refers to them.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use template::Document;

use crate::auth::Mode;
use crate::limits::MAX_PIPELINE_FUNCTIONS;

/// Why a template is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not YAML.
    #[error("the template cannot be read: {0}")]
    Syntax(String),
    /// There is no API, or more than one.
    #[error("the template has {0} resources of type AWS::AppSync::GraphQLApi; it must have one")]
    Apis(usize),
    /// A parameter without a default that was not given.
    #[error("the parameter `{0}` has no default, and no value was given for it")]
    Parameter(String),
    /// A reference to something that the template does not have.
    #[error("{place} refers to `{name}`, which the template does not have")]
    Reference {
        /// Where.
        place: String,
        /// What it names.
        name: String,
    },
    /// A property that must be there.
    #[error("{place}: `{property}` is missing or has the wrong type")]
    Property {
        /// The resource's logical id.
        place: String,
        /// The property.
        property: String,
    },
    /// Something that AppSync has and this crate does not have.
    #[error("{place}: {what} is not supported")]
    Unsupported {
        /// The resource's logical id.
        place: String,
        /// What.
        what: String,
    },
    /// Two resolvers for one field.
    #[error("{place} is a second resolver for {field}; a field can have one")]
    Twice {
        /// The resource's logical id.
        place: String,
        /// The field, as `Type.field`.
        field: String,
    },
}

impl From<template::Error> for Error {
    fn from(error: template::Error) -> Self {
        use template::Error as Read;
        match error {
            Read::NoValue(name) => Self::Parameter(name),
            Read::Unknown { at, name } => Self::Reference { place: at, name },
            Read::NotUnderstood { at, what } => Self::Unsupported { place: at, what },
            Read::Missing { at, what } => Self::Property { place: at, property: what.to_owned() },
            other => Self::Syntax(other.to_string()),
        }
    }
}

/// Where the code of a resolver or function is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Code {
    /// In the template.
    Inline(String),
    /// A location whose end is the path of a file in the code directory.
    Path(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    None,
    DynamoDb {
        table: String,
    },
    /// All names that the template has for the function.
    Lambda {
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) code: Option<Code>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Unit(Step),
    Pipeline { code: Code, functions: Vec<Step> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolver {
    pub(crate) type_name: String,
    pub(crate) field: String,
    pub(crate) kind: Kind,
}

/// An API as its template describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wiring {
    pub(crate) schema: Option<Code>,
    pub(crate) sources: HashMap<String, Source>,
    pub(crate) resolvers: Vec<Resolver>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) query_depth: Option<usize>,
    pub(crate) resolver_count: Option<usize>,
    pub(crate) introspection: bool,
    /// Every level but `NONE` logs errors.
    pub(crate) logs_errors: bool,
}

impl Wiring {
    pub(crate) fn read(yaml: &str, parameters: &[(&str, &str)]) -> Result<Self, Error> {
        let given: BTreeMap<String, Value> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let document = Document::read(yaml, &given)?;
        let apis = document.of_kind("AWS::AppSync::GraphQLApi")?;
        let [api] = apis.as_slice() else { return Err(Error::Apis(apis.len())) };
        let mut wiring = Self { introspection: true, ..Self::default() };
        wiring.read_api(&document, api)?;
        if !document.of_kind("AWS::AppSync::ApiCache")?.is_empty() {
            return Err(Error::Unsupported { place: api.clone(), what: "an API cache".to_owned() });
        }
        if let Some(id) = document.of_kind("AWS::AppSync::GraphQLSchema")?.first() {
            let properties = document.properties(id)?;
            wiring.schema = code(&properties, "Definition", "DefinitionS3Location");
        }
        for id in document.of_kind("AWS::AppSync::DataSource")? {
            let properties = Properties { place: &id, value: document.properties(&id)? };
            let source = properties.source(&document)?;
            wiring.sources.insert(properties.text("Name")?, source);
        }
        let mut functions: HashMap<String, Step> = HashMap::new();
        for id in document.of_kind("AWS::AppSync::FunctionConfiguration")? {
            let properties = Properties { place: &id, value: document.properties(&id)? };
            properties.refuse_templates()?;
            let step = Step {
                name: properties.text("Name")?,
                source: properties.text("DataSourceName")?,
                code: properties.code(),
            };
            functions.insert(id, step);
        }
        for id in document.of_kind("AWS::AppSync::Resolver")? {
            let properties = Properties { place: &id, value: document.properties(&id)? };
            let resolver = properties.resolver(&functions)?;
            let field = format!("{}.{}", resolver.type_name, resolver.field);
            if wiring
                .resolvers
                .iter()
                .any(|other| other.type_name == resolver.type_name && other.field == resolver.field)
            {
                return Err(Error::Twice { place: id, field });
            }
            wiring.resolvers.push(resolver);
        }
        Ok(wiring)
    }

    fn read_api(&mut self, document: &Document, id: &str) -> Result<(), Error> {
        let properties = Properties { place: id, value: document.properties(id)? };
        let mut modes = vec![properties.text("AuthenticationType")?];
        if let Some(additional) = properties.value.get("AdditionalAuthenticationProviders").and_then(Value::as_array) {
            modes.extend(
                additional.iter().filter_map(|mode| mode["AuthenticationType"].as_str()).map(ToOwned::to_owned),
            );
        }
        for mode in modes {
            let known = Mode::named(&mode).ok_or_else(|| Error::Unsupported {
                place: id.to_owned(),
                what: format!("the authentication type {mode}"),
            })?;
            self.modes.push(known);
        }
        if let Some(variables) = properties.value.get("EnvironmentVariables").and_then(Value::as_object) {
            for (name, value) in variables {
                let value = scalar_text(value).ok_or_else(|| Error::Property {
                    place: id.to_owned(),
                    property: format!("EnvironmentVariables.{name}"),
                })?;
                self.environment.push((name.clone(), value));
            }
        }
        let bound = |name: &str| {
            properties
                .value
                .get(name)
                .and_then(scalar_text)
                .and_then(|text| text.parse::<usize>().ok())
                .filter(|bound| *bound > 0)
        };
        self.query_depth = bound("QueryDepthLimit");
        self.resolver_count = bound("ResolverCountLimit");
        self.introspection = properties.value.get("IntrospectionConfig").and_then(Value::as_str) != Some("DISABLED");
        let level = properties.value.get("LogConfig").and_then(|config| config["FieldLogLevel"].as_str());
        self.logs_errors = level.is_some_and(|level| level != "NONE");
        Ok(())
    }
}

fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn code(properties: &Value, inline: &str, location: &str) -> Option<Code> {
    if let Some(text) = properties.get(inline).and_then(Value::as_str) {
        return Some(Code::Inline(text.to_owned()));
    }
    properties.get(location).and_then(Value::as_str).map(|path| Code::Path(path.to_owned()))
}

struct Properties<'a> {
    place: &'a str,
    value: Value,
}

impl Properties<'_> {
    fn text(&self, property: &str) -> Result<String, Error> {
        self.value
            .get(property)
            .and_then(Value::as_str)
            .map(ToOwned::to_owned)
            .ok_or_else(|| Error::Property { place: self.place.to_owned(), property: property.to_owned() })
    }

    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Unsupported { place: self.place.to_owned(), what: what.into() })
    }

    fn code(&self) -> Option<Code> {
        code(&self.value, "Code", "CodeS3Location")
    }

    fn refuse_templates(&self) -> Result<(), Error> {
        for property in [
            "RequestMappingTemplate",
            "ResponseMappingTemplate",
            "RequestMappingTemplateS3Location",
            "ResponseMappingTemplateS3Location",
        ] {
            if self.value.get(property).is_some() {
                return self.unsupported(format!("a mapping template in VTL ({property})"));
            }
        }
        for property in ["SyncConfig", "CachingConfig", "MaxBatchSize"] {
            if self.value.get(property).is_some_and(|value| !value.is_null() && value.as_u64() != Some(0)) {
                return self.unsupported(property);
            }
        }
        if let Some(runtime) = self.value.get("Runtime") {
            let name = runtime.get("Name").and_then(Value::as_str).unwrap_or_default();
            let version = runtime.get("RuntimeVersion").and_then(scalar_text).unwrap_or_default();
            if (name, version.as_str()) != ("APPSYNC_JS", "1.0.0") {
                return self.unsupported(format!("the runtime {name} {version}"));
            }
        }
        Ok(())
    }

    fn source(&self, document: &Document) -> Result<Source, Error> {
        match self.text("Type")?.as_str() {
            "NONE" => Ok(Source::None),
            "AMAZON_DYNAMODB" => {
                let config = &self.value["DynamoDBConfig"];
                if config.get("Versioned").and_then(Value::as_bool) == Some(true)
                    || config.get("DeltaSyncConfig").is_some()
                {
                    return self.unsupported("a versioned data source");
                }
                let table = config.get("TableName").and_then(Value::as_str);
                let table = table.ok_or_else(|| Error::Property {
                    place: self.place.to_owned(),
                    property: "DynamoDBConfig.TableName".to_owned(),
                })?;
                Ok(Source::DynamoDb { table: table.to_owned() })
            }
            "AWS_LAMBDA" => {
                let arn = self.value["LambdaConfig"].get("LambdaFunctionArn").and_then(Value::as_str);
                let arn = arn.ok_or_else(|| Error::Property {
                    place: self.place.to_owned(),
                    property: "LambdaConfig.LambdaFunctionArn".to_owned(),
                })?;
                Ok(Source::Lambda { names: document.function_names(arn)? })
            }
            other => self.unsupported(format!("a data source of type {other}")),
        }
    }

    fn resolver(&self, functions: &HashMap<String, Step>) -> Result<Resolver, Error> {
        self.refuse_templates()?;
        let (type_name, field) = (self.text("TypeName")?, self.text("FieldName")?);
        let kind = match self.value.get("Kind").and_then(Value::as_str) {
            None | Some("UNIT") => Kind::Unit(Step {
                name: format!("{type_name}.{field}"),
                source: self.text("DataSourceName")?,
                code: self.code(),
            }),
            Some("PIPELINE") => {
                let ids = self.value["PipelineConfig"]
                    .get("Functions")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default();
                if ids.len() > MAX_PIPELINE_FUNCTIONS {
                    return self.unsupported(format!(
                        "a pipeline of {} functions (AppSync takes {MAX_PIPELINE_FUNCTIONS})",
                        ids.len()
                    ));
                }
                let steps = ids
                    .iter()
                    .map(|id| {
                        let id = id.as_str().unwrap_or_default();
                        functions
                            .get(id)
                            .cloned()
                            .ok_or_else(|| Error::Reference { place: self.place.to_owned(), name: id.to_owned() })
                    })
                    .collect::<Result<_, _>>()?;
                let code = self
                    .code()
                    .ok_or_else(|| Error::Property { place: self.place.to_owned(), property: "Code".to_owned() })?;
                Kind::Pipeline { code, functions: steps }
            }
            Some(other) => return self.unsupported(format!("a resolver of kind {other}")),
        };
        Ok(Resolver { type_name, field, kind })
    }
}

#[cfg(test)]
mod tests;
