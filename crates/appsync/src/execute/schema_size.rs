//! How many objects of the schema a selection is asked of, when a query asks about the schema.
//!
//! `__schema { types { fields { name } } }` asks once for a name and gets one per field of the schema. Where all types are asked, the
//! number is exact. Below a field's type it is not known which types these are, so each counts as the largest.

use apollo_compiler::ast::Type;
use apollo_compiler::schema::ExtendedType;

use crate::schema::Schema;

/// Objects of the schema that a selection is asked of.
#[derive(Clone, Copy)]
pub(super) struct Objects {
    pub(super) number: usize,
    /// Whether these are all objects of their kind.
    all: bool,
    /// How often `ofType` may lead further.
    wrapped: usize,
}

impl Objects {
    /// What `__schema` or `__type` stands for.
    pub(super) const ONE: Self = Self { number: 1, all: false, wrapped: 0 };
}

/// Parts that objects of one kind have, for example the fields of types.
#[derive(Default)]
struct Parts {
    in_all: usize,
    /// The most that one object has.
    most: usize,
}

impl Parts {
    fn add(&mut self, number: usize) {
        self.in_all += number;
        self.most = self.most.max(number);
    }

    fn of(&self, objects: Objects, all: bool) -> Objects {
        let number = if objects.all { self.in_all } else { objects.number.saturating_mul(self.most) };
        Objects { number, all: all && objects.all, wrapped: 0 }
    }
}

#[derive(Default)]
pub(super) struct SchemaSize {
    types: usize,
    directives: usize,
    fields: Parts,
    input_fields: Parts,
    enum_values: Parts,
    interfaces: Parts,
    possible_types: Parts,
    arguments: Parts,
    directive_arguments: Parts,
    /// The most lists and exclamation marks around one type.
    wrapped: usize,
}

impl SchemaSize {
    pub(super) fn of(schema: &Schema) -> Self {
        let mut size = Self {
            types: schema.valid.types.len(),
            directives: schema.valid.directive_definitions.len(),
            ..Self::default()
        };
        for directive in schema.valid.directive_definitions.values() {
            size.directive_arguments.add(directive.arguments.len());
            size.wrap(directive.arguments.iter().map(|argument| &*argument.ty));
        }
        for (name, definition) in &schema.valid.types {
            let (fields, interfaces) = match definition {
                ExtendedType::Object(object) => (&object.fields, &object.implements_interfaces),
                ExtendedType::Interface(interface) => {
                    let implementers = schema.implementers.get(name);
                    size.possible_types.add(implementers.map_or(0, |found| found.objects.len()));
                    (&interface.fields, &interface.implements_interfaces)
                }
                ExtendedType::Union(union) => {
                    size.possible_types.add(union.members.len());
                    continue;
                }
                ExtendedType::Enum(values) => {
                    size.enum_values.add(values.values.len());
                    continue;
                }
                ExtendedType::InputObject(input) => {
                    size.input_fields.add(input.fields.len());
                    size.wrap(input.fields.values().map(|field| &*field.ty));
                    continue;
                }
                ExtendedType::Scalar(_) => continue,
            };
            size.fields.add(fields.len());
            size.interfaces.add(interfaces.len());
            for field in fields.values() {
                size.arguments.add(field.arguments.len());
                size.wrap(field.arguments.iter().map(|argument| &*argument.ty).chain([&field.ty]));
            }
        }
        size
    }

    fn wrap<'t>(&mut self, types: impl Iterator<Item = &'t Type>) {
        let most = types.map(wrappers).max().unwrap_or(0);
        self.wrapped = self.wrapped.max(most);
    }

    /// The objects that a field of `objects` leads to.
    pub(super) fn below(&self, objects: Objects, type_name: &str, field: &str) -> Objects {
        let every = |number| Objects { number, all: true, wrapped: 0 };
        match (type_name, field) {
            ("__Schema", "types") => every(self.types),
            ("__Schema", "directives") => every(self.directives),
            ("__Type", "fields") => self.fields.of(objects, true),
            ("__Type", "inputFields") => self.input_fields.of(objects, true),
            ("__Type", "enumValues") => self.enum_values.of(objects, true),
            ("__Type", "interfaces") => self.interfaces.of(objects, false),
            ("__Type", "possibleTypes") => self.possible_types.of(objects, false),
            ("__Field", "args") => self.arguments.of(objects, true),
            ("__Directive", "args") => self.directive_arguments.of(objects, true),
            ("__Field" | "__InputValue", "type") => Objects { all: false, wrapped: self.wrapped, ..objects },
            ("__Type", "ofType") => match objects.wrapped.checked_sub(1) {
                Some(wrapped) => Objects { all: false, wrapped, ..objects },
                None => Objects { number: 0, ..Objects::ONE },
            },
            _ => Objects { number: objects.number, ..Objects::ONE },
        }
    }
}

/// The lists and exclamation marks around a type.
fn wrappers(ty: &Type) -> usize {
    match ty {
        Type::Named(_) => 0,
        Type::NonNullNamed(_) => 1,
        Type::List(inner) => 1 + wrappers(inner),
        Type::NonNullList(inner) => 2 + wrappers(inner),
    }
}
