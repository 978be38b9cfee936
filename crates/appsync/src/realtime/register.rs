//! The register of subscriptions: who is subscribed to which field, with which plan.
//!
//! A publication concerns few subscribers, and so does a listener that leaves. Neither takes longer if there are many others:
//! plans without a filter are found by the values of their arguments, and each listener's subscriptions are known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::filter;
use super::hub::{ConnectionId, Listener};
use super::plan::Plan;
use crate::response::Data;

/// The subscribers that share a plan, in the order in which their listeners came: each with the id of its subscription.
pub(super) struct Group {
    pub(super) plan: Arc<Plan>,
    pub(super) members: BTreeMap<(ConnectionId, String), Listener>,
}

/// All subscriptions of an API.
#[derive(Default)]
pub(super) struct Register {
    /// By the field of the subscription type.
    topics: HashMap<String, Topic>,
    /// What each listener is subscribed to.
    of_listeners: HashMap<ConnectionId, Vec<Place>>,
}

/// Where a subscription is.
struct Place {
    id: String,
    field: String,
    plan: Arc<str>,
}

impl Register {
    pub(super) fn has(&self, field: &str) -> bool {
        self.topics.contains_key(field)
    }

    /// How many subscriptions there are.
    pub(super) fn len(&self) -> usize {
        self.of_listeners.values().map(Vec::len).sum()
    }

    pub(super) fn add(&mut self, id: &str, plan: Plan, listener: &Listener) {
        let field = plan.field.clone();
        let plan = self.topics.entry(field.clone()).or_default().add(id, plan, listener);
        let place = Place { id: id.to_owned(), field, plan };
        self.of_listeners.entry(listener.connection).or_default().push(place);
    }

    /// The groups of a field that want the answer to a mutation.
    pub(super) fn wanting<'a>(&'a self, field: &str, data: &'a Data) -> impl Iterator<Item = &'a Group> {
        let candidates = self.topics.get(field).into_iter().flat_map(move |topic| topic.candidates(data));
        candidates.filter(move |group| group.plan.wants(data))
    }

    /// Removes all subscriptions of a listener.
    pub(super) fn leave(&mut self, connection: ConnectionId) {
        for place in self.of_listeners.remove(&connection).unwrap_or_default() {
            self.forget(connection, &place);
        }
    }

    /// Removes one subscription of a listener.
    pub(super) fn unsubscribe(&mut self, connection: ConnectionId, id: &str) {
        let Some(places) = self.of_listeners.get_mut(&connection) else { return };
        let left: Vec<Place> = places.extract_if(.., |place| place.id == id).collect();
        if places.is_empty() {
            self.of_listeners.remove(&connection);
        }
        for place in left {
            self.forget(connection, &place);
        }
    }

    /// Removes the groups of a field for which `ends` is true, and returns their members.
    pub(super) fn end(&mut self, field: &str, ends: impl Fn(&Plan) -> bool) -> Vec<(String, Listener)> {
        let Some(topic) = self.topics.get(field) else { return Vec::new() };
        let ending = topic.groups.values().filter(|group| ends(&group.plan));
        let members: Vec<(ConnectionId, String, Listener)> = ending
            .flat_map(|group| &group.members)
            .map(|((connection, id), listener)| (*connection, id.clone(), listener.clone()))
            .collect();
        for (connection, id, _) in &members {
            self.unsubscribe(*connection, id);
        }
        members.into_iter().map(|(_, id, listener)| (id, listener)).collect()
    }

    fn forget(&mut self, connection: ConnectionId, place: &Place) {
        let Some(topic) = self.topics.get_mut(&place.field) else { return };
        topic.remove(&place.plan, connection, &place.id);
        if topic.groups.is_empty() {
            self.topics.remove(&place.field);
        }
    }
}

/// The subscriptions of one field.
#[derive(Default)]
struct Topic {
    /// By the key of their plan.
    groups: HashMap<Arc<str>, Group>,
    /// Plans without a filter: by the names of their arguments, of which there are few combinations, and then by the values.
    by_arguments: HashMap<Vec<String>, HashMap<String, HashSet<Arc<str>>>>,
    /// Plans with a filter, each of which has to be asked.
    filtered: HashSet<Arc<str>>,
}

impl Topic {
    /// Returns the key of the plan.
    fn add(&mut self, id: &str, plan: Plan, listener: &Listener) -> Arc<str> {
        let key: Arc<str> = plan.key.as_str().into();
        let group = self.groups.entry(Arc::clone(&key)).or_insert_with(|| {
            match plan.arguments() {
                Some((names, values)) => {
                    let same_names = self.by_arguments.entry(names).or_default();
                    same_names.entry(values).or_default().insert(Arc::clone(&key));
                }
                None => drop(self.filtered.insert(Arc::clone(&key))),
            }
            Group { plan: Arc::new(plan), members: BTreeMap::new() }
        });
        group.members.insert((listener.connection, id.to_owned()), listener.clone());
        key
    }

    /// The groups that may want the answer to a mutation. All that want it are among them.
    fn candidates<'a>(&'a self, data: &'a Data) -> impl Iterator<Item = &'a Group> {
        let by_arguments =
            self.by_arguments.iter().filter_map(move |(names, plans)| plans.get(&filter::values(names, data)));
        by_arguments.flatten().chain(&self.filtered).filter_map(move |key| self.groups.get(key))
    }

    fn remove(&mut self, key: &Arc<str>, connection: ConnectionId, id: &str) {
        let Some(group) = self.groups.get_mut(key) else { return };
        group.members.remove(&(connection, id.to_owned()));
        if !group.members.is_empty() {
            return;
        }
        let arguments = group.plan.arguments();
        self.groups.remove(key);
        self.filtered.remove(key);
        let Some((names, values)) = arguments else { return };
        if let Some(same_names) = self.by_arguments.get_mut(&names) {
            if let Some(plans) = same_names.get_mut(&values) {
                plans.remove(key);
                if plans.is_empty() {
                    same_names.remove(&values);
                }
            }
            if same_names.is_empty() {
                self.by_arguments.remove(&names);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use apollo_compiler::executable::ExecutableDocument;
    use serde_json::{Value, json};

    use super::*;
    use crate::realtime::hub::Hub;

    /// A plan of the field `onSend` with these arguments and, if it has one, this filter.
    fn plan(arguments: Value, filter: Option<Value>) -> Plan {
        let schema = apollo_compiler::Schema::parse_and_validate("type Query { a: Int }", "schema").unwrap();
        let document = ExecutableDocument::parse_and_validate(&schema, "{ a }", "query").unwrap();
        Plan::sample(Arc::new(document), "onSend", arguments, filter.as_ref())
    }

    fn said(value: &Value) -> Data {
        filter::plain_object(value)
    }

    fn listener(hub: &Hub) -> Listener {
        hub.listener(1).0
    }

    /// How many plans are asked about an answer, and how many want it.
    fn asked_and_wanting(register: &Register, data: &Data) -> (usize, usize) {
        let asked = register.topics.get("onSend").map_or(0, |topic| topic.candidates(data).count());
        (asked, register.wanting("onSend", data).count())
    }

    #[test]
    fn a_publication_asks_only_the_plans_that_its_values_concern() {
        let (hub, mut register) = (Hub::default(), Register::default());
        for room in 0..1_000 {
            register.add("1", plan(json!({"room": room, "kind": "text"}), None), &listener(&hub));
        }
        let here = said(&json!({"room": 7.0, "kind": "text"}));
        assert_eq!(asked_and_wanting(&register, &here), (1, 1));
        assert_eq!(asked_and_wanting(&register, &said(&json!({"room": 7, "kind": "picture"}))), (0, 0));
        // Others choose by other arguments, by none, or by a filter.
        register.add("1", plan(json!({"kind": "text"}), None), &listener(&hub));
        register.add("1", plan(json!({}), None), &listener(&hub));
        let eights = json!({"filterGroup": [{"filters": [{"fieldName": "room", "operator": "eq", "value": 8}]}]});
        register.add("1", plan(json!({"room": 7}), Some(eights)), &listener(&hub));
        assert_eq!(asked_and_wanting(&register, &here), (4, 3));
        assert_eq!(register.len(), 1_003);
    }

    #[test]
    fn whoever_leaves_leaves_nothing_behind() {
        let (hub, mut register) = (Hub::default(), Register::default());
        let [first, second] = [listener(&hub), listener(&hub)];
        let everything = json!({"filterGroup": []});
        for each in [&first, &second] {
            register.add("a", plan(json!({"room": 1}), None), each);
            register.add("b", plan(json!({"room": 2}), None), each);
            register.add("c", plan(json!({"room": 3}), Some(everything.clone())), each);
        }
        let members = |register: &Register| {
            register.wanting("onSend", &said(&json!({"room": 1}))).map(|group| group.members.len()).sum::<usize>()
        };
        assert_eq!((register.len(), members(&register)), (6, 4), "of room 1, and those with a filter");
        register.unsubscribe(first.connection, "a");
        register.unsubscribe(first.connection, "a");
        assert_eq!((register.len(), members(&register)), (5, 3));
        register.leave(second.connection);
        assert_eq!((register.len(), members(&register)), (2, 1));
        let ended = register.end("onSend", |_| true);
        assert_eq!(ended.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>().len(), 2);
        assert!(!register.has("onSend") && register.len() == 0 && register.of_listeners.is_empty());
        register.leave(first.connection);
    }

    #[test]
    fn an_argument_that_matches_is_found_however_its_value_is_written() {
        let found =
            [json!(null), json!(0), json!(-0.0), json!(1), json!(1.0), json!(1e3), json!("1"), json!(""), json!(true)];
        let found = found.iter().chain(&[json!("a\nb"), json!(["a", 1]), json!([])]).cloned().collect::<Vec<Value>>();
        let mut matches = 0;
        for wanted in &found {
            for value in &found {
                let arguments = json!({"a": wanted, "b": "x"}).as_object().cloned().unwrap_or_default();
                let data = said(&json!({"a": value, "b": "x"}));
                let names: Vec<String> = arguments.keys().cloned().collect();
                if filter::arguments_match(&arguments, &data) {
                    matches += 1;
                    assert_eq!(filter::wanted(&arguments), filter::values(&names, &data), "{wanted} {value}");
                }
            }
        }
        assert!(matches >= found.len(), "each equals itself at least: {matches}");
    }
}
