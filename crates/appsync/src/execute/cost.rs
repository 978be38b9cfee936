//! Counts what a query or a subscription asks for, before anything is done for it.
//!
//! The count is what executing would need if every object were there and every list had one element. A longer list needs more, which the
//! executor notices when it gets there; so it does with what is below an interface or a union. An object that is `null` needs less:
//! AppSync may answer a query that is refused here. What a query asks about the schema is counted with the schema's own lists.

use apollo_compiler::Name;
use apollo_compiler::ast::OperationType;
use apollo_compiler::executable::SelectionSet;
use apollo_compiler::schema::ExtendedType;

use super::Execution;
use super::schema_size::{Objects, SchemaSize};
use crate::limits::{MAX_INTROSPECTED_FIELDS, MAX_SELECTED_FIELDS};
use crate::response::Error;

/// What was counted so far.
#[derive(Default)]
struct Count {
    selected: usize,
    introspected: usize,
    resolvers: usize,
    /// Made when a query first asks about the schema.
    schema: Option<SchemaSize>,
}

impl<'a> Execution<'a> {
    /// Refuses an operation that needs more resolver calls, or selects more fields, than a request may.
    pub(crate) fn affordable(&self) -> Result<(), Box<Error>> {
        let Some(root) = self.api.schema.root(self.operation.operation_type) else { return Ok(()) };
        self.add(root, &[&self.operation.selection_set], &mut Count::default())
    }

    /// Adds the fields of an object. It ends as soon as a bound is exceeded, and every selection that is looked at counts, so counting is
    /// itself bounded.
    fn add(&self, type_name: &Name, sets: &[&'a SelectionSet], count: &mut Count) -> Result<(), Box<Error>> {
        let (fields, visited) = self.selector().counted(type_name, sets.iter().copied());
        count.selected += visited;
        if count.selected > MAX_SELECTED_FIELDS {
            return Err(too_complex(format!("The query selects more than {MAX_SELECTED_FIELDS} fields.")));
        }
        for nodes in fields.values() {
            let Some(first) = nodes.first() else { continue };
            let sets: Vec<_> = nodes.iter().map(|node| &node.selection_set).collect();
            let about_schema = match first.name.as_str() {
                "__schema" => Some("__Schema"),
                "__type" => Some("__Type"),
                _ => None,
            };
            if let Some((name, _)) = about_schema.and_then(|name| self.api.schema.valid.types.get_key_value(name)) {
                self.add_introspection(name, &sets, Objects::ONE, count)?;
                continue;
            }
            let Some(definition) = self.api.schema.field(type_name, &first.name) else { continue };
            // Of a subscription only the resolver of its one field is called.
            if self.operation.operation_type != OperationType::Subscription
                && self.api.resolver(type_name, &first.name).is_some()
            {
                count.resolvers += 1;
                if count.resolvers > self.api.limits.resolvers {
                    return Err(Box::new(self.too_many_resolvers()));
                }
            }
            let inner = definition.ty.inner_named_type();
            // Which type an interface or a union stands for is known when its value is.
            if matches!(self.api.schema.valid.types.get(inner), Some(ExtendedType::Object(_))) {
                self.add(inner, &sets, count)?;
            }
        }
        Ok(())
    }

    /// Adds what is asked of objects of the schema.
    fn add_introspection(
        &self,
        type_name: &Name,
        sets: &[&'a SelectionSet],
        objects: Objects,
        count: &mut Count,
    ) -> Result<(), Box<Error>> {
        let (fields, visited) = self.selector().counted(type_name, sets.iter().copied());
        count.introspected = count.introspected.saturating_add(visited.saturating_mul(objects.number));
        if count.introspected > MAX_INTROSPECTED_FIELDS {
            let message = format!("The query asks for more than {MAX_INTROSPECTED_FIELDS} fields of the schema.");
            return Err(too_complex(message));
        }
        for nodes in fields.values() {
            let Some(first) = nodes.first() else { continue };
            let Some(definition) = self.api.schema.field(type_name, &first.name) else { continue };
            let inner = definition.ty.inner_named_type();
            if !matches!(self.api.schema.valid.types.get(inner), Some(ExtendedType::Object(_))) {
                continue;
            }
            let schema = count.schema.get_or_insert_with(|| SchemaSize::of(&self.api.schema));
            let below = schema.below(objects, type_name, &first.name);
            if below.number > 0 {
                let sets: Vec<_> = nodes.iter().map(|node| &node.selection_set).collect();
                self.add_introspection(inner, &sets, below, count)?;
            }
        }
        Ok(())
    }

    pub(super) fn too_many_resolvers(&self) -> Error {
        let message = format!("The request needs more than {} resolver calls.", self.api.limits.resolvers);
        Error::typed("ResolverCountLimitReached", message)
    }
}

fn too_complex(message: String) -> Box<Error> {
    Box::new(Error::typed("QueryComplexityLimitReached", message))
}
