//! What a document selects of an object, once fragments, `@skip` and `@include` are applied.

use apollo_compiler::ast::Value as Literal;
use apollo_compiler::collections::{HashMap, HashSet, IndexMap};
use apollo_compiler::executable::{DirectiveList, ExecutableDocument, Field, Selection, SelectionSet};
use apollo_compiler::{Name, Node};
use serde_json::{Map, Value};

use crate::limits::{MAX_SELECTION_BYTES, MAX_SELECTION_LIST};
use crate::schema::Schema;

/// Fields by their key in the answer. Several fields with one key are merged.
pub(crate) type Fields<'a> = IndexMap<&'a Name, Vec<&'a Node<Field>>>;

/// What collecting the fields of an object has found so far.
#[derive(Default)]
struct Collected<'a> {
    fields: Fields<'a>,
    /// The fragments that were spread.
    spread: HashSet<&'a Name>,
    /// Selections that were looked at. A key that is selected a thousand times is one field, but it is looked at a thousand times.
    visited: usize,
}

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
        self.counted(type_name, sets).0
    }

    /// The same, and how many selections were looked at to find them: no more than the document has, because a fragment is spread only
    /// once per object.
    pub(crate) fn counted<'s>(
        &self,
        type_name: &Name,
        sets: impl IntoIterator<Item = &'s SelectionSet>,
    ) -> (Fields<'s>, usize)
    where
        'a: 's,
    {
        let mut collected = Collected::default();
        for set in sets {
            self.collect(type_name, set, &mut collected);
        }
        (collected.fields, collected.visited)
    }

    fn collect<'s>(&self, type_name: &Name, set: &'s SelectionSet, collected: &mut Collected<'s>)
    where
        'a: 's,
    {
        for selection in &set.selections {
            collected.visited += 1;
            if !self.included(selection.directives()) {
                continue;
            }
            match selection {
                Selection::Field(field) => collected.fields.entry(field.response_key()).or_default().push(field),
                Selection::InlineFragment(fragment) => {
                    if fragment.type_condition.as_ref().is_none_or(|condition| self.applies(condition, type_name)) {
                        self.collect(type_name, &fragment.selection_set, collected);
                    }
                }
                Selection::FragmentSpread(fragment) => {
                    // A fragment adds its fields once per object, however often it is spread.
                    if !collected.spread.insert(&fragment.fragment_name) {
                        continue;
                    }
                    if let Some(fragment) = self.document.fragments.get(&fragment.fragment_name)
                        && self.applies(fragment.type_condition(), type_name)
                    {
                        self.collect(type_name, &fragment.selection_set, collected);
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
        let mut described = Description::default();
        for field in fields {
            self.describe_set(&field.selection_set, "", &mut described);
        }
        let Description { list, text, .. } = described;
        let text = if text.is_empty() { text } else { format!("{{{text}\n}}") };
        (list, text)
    }

    fn describe_set(&self, set: &SelectionSet, prefix: &str, described: &mut Description) {
        for selection in &set.selections {
            // Nested fragments can select exponentially many fields, and names can be long.
            if described.is_full() {
                return;
            }
            if !self.included(selection.directives()) {
                continue;
            }
            match selection {
                Selection::Field(field) => {
                    let path = format!("{prefix}{}", field.response_key());
                    described.text.push_str("\n  ");
                    if let Some(alias) = &field.alias {
                        described.text.push_str(alias);
                        described.text.push_str(": ");
                    }
                    described.text.push_str(&field.name);
                    described.paths += path.len();
                    described.list.push(path.clone());
                    if !field.selection_set.is_empty() {
                        described.text.push_str(" {");
                        self.describe_set(&field.selection_set, &format!("{path}/"), described);
                        described.text.push_str("\n  }");
                    }
                }
                Selection::InlineFragment(fragment) => self.describe_set(&fragment.selection_set, prefix, described),
                Selection::FragmentSpread(spread) => {
                    if let Some(fragment) = self.document.fragments.get(&spread.fragment_name) {
                        self.describe_set(&fragment.selection_set, prefix, described);
                    }
                }
            }
        }
    }
}

/// A selection as a resolver sees it.
#[derive(Default)]
struct Description {
    list: Vec<String>,
    /// How long the paths in `list` are, in all.
    paths: usize,
    text: String,
}

impl Description {
    fn is_full(&self) -> bool {
        self.list.len() >= MAX_SELECTION_LIST || self.paths + self.text.len() >= MAX_SELECTION_BYTES
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
