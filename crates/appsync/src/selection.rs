//! What a document selects of an object, once fragments, `@skip` and `@include` are applied.

use apollo_compiler::ast::Value as Literal;
use apollo_compiler::collections::{HashMap, IndexMap};
use apollo_compiler::executable::{DirectiveList, ExecutableDocument, Field, Selection, SelectionSet};
use apollo_compiler::{Name, Node};
use serde_json::{Map, Value};

use crate::limits::MAX_SELECTION_LIST;
use crate::schema::Schema;

/// Fields by their key in the answer. Several fields with one key are merged.
pub(crate) type Fields<'a> = IndexMap<&'a Name, Vec<&'a Node<Field>>>;

/// What a selection is read with.
#[derive(Clone, Copy)]
pub(crate) struct Selector<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) document: &'a ExecutableDocument,
    pub(crate) variables: &'a Map<String, Value>,
}

impl<'a> Selector<'a> {
    /// The fields of an object of type `type_name`, in the order of the document.
    pub(crate) fn fields<'s>(&self, type_name: &Name, sets: impl IntoIterator<Item = &'s SelectionSet>) -> Fields<'s>
    where
        'a: 's,
    {
        let mut fields = Fields::default();
        let mut spread = Vec::new();
        for set in sets {
            self.collect(type_name, set, &mut fields, &mut spread);
        }
        fields
    }

    fn collect<'s>(&self, type_name: &Name, set: &'s SelectionSet, fields: &mut Fields<'s>, spread: &mut Vec<&'s Name>)
    where
        'a: 's,
    {
        for selection in &set.selections {
            if !self.included(selection.directives()) {
                continue;
            }
            match selection {
                Selection::Field(field) => fields.entry(field.response_key()).or_default().push(field),
                Selection::InlineFragment(fragment) => {
                    if fragment.type_condition.as_ref().is_none_or(|condition| self.applies(condition, type_name)) {
                        self.collect(type_name, &fragment.selection_set, fields, spread);
                    }
                }
                Selection::FragmentSpread(fragment) => {
                    // A fragment adds its fields once per object, however often it is spread.
                    if spread.contains(&&fragment.fragment_name) {
                        continue;
                    }
                    spread.push(&fragment.fragment_name);
                    if let Some(fragment) = self.document.fragments.get(&fragment.fragment_name)
                        && self.applies(fragment.type_condition(), type_name)
                    {
                        self.collect(type_name, &fragment.selection_set, fields, spread);
                    }
                }
            }
        }
    }

    fn applies(&self, condition: &Name, type_name: &Name) -> bool {
        condition == type_name || self.schema.valid.is_subtype(condition, type_name)
    }

    fn included(&self, directives: &DirectiveList) -> bool {
        let flag = |name: &str| {
            let value = directives.get(name)?.specified_argument_by_name("if")?;
            match &**value {
                Literal::Boolean(flag) => Some(*flag),
                Literal::Variable(name) => self.variables.get(name.as_str()).and_then(Value::as_bool),
                _ => None,
            }
        };
        flag("skip") != Some(true) && flag("include") != Some(false)
    }

    /// `ctx.info.selectionSetList` and `selectionSetGraphQL` of a field.
    pub(crate) fn describe(&self, fields: &[&Node<Field>]) -> (Vec<String>, String) {
        let mut list = Vec::new();
        let mut text = String::new();
        for field in fields {
            self.describe_set(&field.selection_set, "", &mut list, &mut text);
        }
        let text = if text.is_empty() { text } else { format!("{{{text}\n}}") };
        (list, text)
    }

    fn describe_set(&self, set: &SelectionSet, prefix: &str, list: &mut Vec<String>, text: &mut String) {
        for selection in &set.selections {
            // Nested fragments can select exponentially many fields.
            if list.len() >= MAX_SELECTION_LIST || !self.included(selection.directives()) {
                continue;
            }
            match selection {
                Selection::Field(field) => {
                    let path = format!("{prefix}{}", field.response_key());
                    text.push_str("\n  ");
                    if let Some(alias) = &field.alias {
                        text.push_str(alias);
                        text.push_str(": ");
                    }
                    text.push_str(&field.name);
                    list.push(path.clone());
                    if !field.selection_set.is_empty() {
                        text.push_str(" {");
                        self.describe_set(&field.selection_set, &format!("{path}/"), list, text);
                        text.push_str("\n  }");
                    }
                }
                Selection::InlineFragment(fragment) => self.describe_set(&fragment.selection_set, prefix, list, text),
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = self.document.fragments.get(&spread.fragment_name) {
                        self.describe_set(&fragment.selection_set, prefix, list, text);
                    }
                }
            }
        }
    }
}

/// How deep a selection nests. Each fragment is measured only once.
pub(crate) fn depth<'a>(document: &'a ExecutableDocument, set: &'a SelectionSet) -> usize {
    fn measure<'a>(
        document: &'a ExecutableDocument,
        set: &'a SelectionSet,
        known: &mut HashMap<&'a Name, usize>,
    ) -> usize {
        let mut deepest = 0;
        for selection in &set.selections {
            let depth = match selection {
                Selection::Field(field) => 1 + measure(document, &field.selection_set, known),
                Selection::InlineFragment(fragment) => measure(document, &fragment.selection_set, known),
                Selection::FragmentSpread(spread) => match known.get(&spread.fragment_name) {
                    Some(depth) => *depth,
                    None => {
                        let depth = document
                            .fragments
                            .get(&spread.fragment_name)
                            .map_or(0, |fragment| measure(document, &fragment.selection_set, known));
                        known.insert(&spread.fragment_name, depth);
                        depth
                    }
                },
            };
            deepest = deepest.max(depth);
        }
        deepest
    }
    measure(document, set, &mut HashMap::default())
}
