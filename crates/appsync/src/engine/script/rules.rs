//! What AppSync refuses when a resolver is saved, found in the tokens of its file.
//!
//! The rules are those of AWS's own linter (`@aws-appsync/eslint-plugin`), in its words, and what AWS's page "Supported runtime features" adds, in
//! ours. `tests/refusals.json` has a case for each, and `infra/lint` compares it with the linter.
//!
//! They know names, neither types nor scopes. So a method counts as an array's or a string's by its name, a name counts as known if anything in
//! the file declares it, and a function is followed only under the name that it was declared with.

use std::collections::{HashMap, HashSet, VecDeque};

use super::CodeError;
use super::lexer::{Kind, Token};
use crate::limits::MAX_CODE_ERRORS;

/// The array methods that may be given a function.
const TAKE_FUNCTIONS: &[&str] = &[
    "every",
    "filter",
    "find",
    "findIndex",
    "findLast",
    "findLastIndex",
    "flatMap",
    "forEach",
    "map",
    "reduce",
    "reduceRight",
    "some",
];

/// Methods that JavaScript has and APPSYNC_JS does not have, by the type that AWS's linter names.
const MISSING_METHODS: &[(&str, &[&str])] = &[
    ("Array", &["copyWithin", "entries", "group", "groupToMap", "keys", "toLocaleString", "values"]),
    ("Function", &["apply", "bind", "call"]),
    ("Object", &["hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"]),
    (
        "String",
        &[
            "charCodeAt",
            "localeCompare",
            "matchAll",
            "padEnd",
            "padStart",
            "repeat",
            "search",
            "toLocaleLowerCase",
            "toLocaleUpperCase",
            "valueOf",
        ],
    ),
];

/// The objects of the language that APPSYNC_JS has: their names, what AWS's linter calls their types, and their own methods.
const OBJECTS: &[(&str, &str, &[&str])] = &[
    ("Array", "Array", &[]),
    ("JSON", "JSON", &["parse", "stringify"]),
    ("Math", "Math", &["ceil", "floor", "max", "min", "random", "round"]),
    ("Number", "Number", &["isFinite", "isNaN"]),
    ("Object", "ObjectConstructor", &["assign", "entries", "hasOwn", "keys", "values"]),
    ("String", "String", &["raw"]),
    ("console", "console", &["error", "log"]),
];

/// The other names that are always there.
const GLOBALS: &[&str] = &["Infinity", "NaN", "extensions", "runtime", "undefined", "util"];

const RESERVED: &[&str] = &[
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "get",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "set",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Statements and operators that AppSync does not have, by the word that begins them.
const REFUSED_WORDS: &[(&str, &str)] = &[
    ("await", "The `await` keyword is not supported"),
    ("class", "Class declarations are not supported."),
    ("continue", "Continue statements are not supported"),
    ("debugger", "Debugger statements are not supported."),
    ("do", "do...while statements are not supported."),
    ("eval", "eval is not supported."),
    ("instanceof", "The operator instanceof is not supported"),
    ("super", "super is not supported."),
    ("this", "This expressions are not supported."),
    ("throw", "Throw statements are not supported. Use util.error()."),
    ("try", "Try statements are not supported."),
    ("while", "While statements are not supported."),
    ("with", "With statements are not supported."),
    ("yield", "Yield statements are not supported"),
];

/// Everything that is refused, in the order of the file.
pub(super) fn check(source: &str, tokens: &[Token<'_>]) -> Vec<CodeError> {
    let Pairs { closing, opening, around } = match pairs(tokens) {
        Ok(pairs) => pairs,
        // Without brackets that match, no rule knows what belongs together.
        Err((token, what)) => return vec![CodeError::parser(source, token, what)],
    };
    let mut rules = Rules {
        source,
        tokens,
        closing,
        opening,
        around,
        ends: Vec::new(),
        functions: Vec::new(),
        named: HashMap::new(),
        aliases: HashMap::new(),
        variables: HashMap::new(),
        found: Vec::new(),
    };
    rules.ends = rules.find_ends();
    rules.functions = rules.find_functions();
    for function in &rules.functions {
        for name in function.names() {
            let (all, constants) = rules.named.entry(name).or_insert((0, 0));
            *all += 1;
            *constants += usize::from(function.constant == Some(name));
        }
    }
    rules.variables = rules.find_variables();
    rules.aliases = rules.find_aliases();
    rules.run();
    rules.found.sort_by_key(|(at, _)| *at);
    rules.found.into_iter().map(|(_, error)| error).collect()
}

/// Which brackets and substitutions belong together.
struct Pairs {
    /// For each token that opens one, the token that closes it.
    closing: HashMap<usize, usize>,
    /// The other way round.
    opening: HashMap<usize, usize>,
    /// For each token, the one that opens the innermost bracket around it.
    around: Vec<Option<usize>>,
}

/// Finds the pairs; or the token that has no partner, and what a parser says about it.
fn pairs<'a>(tokens: &'a [Token<'a>]) -> Result<Pairs, (&'a Token<'a>, &'static str)> {
    let mut pairs = Pairs { closing: HashMap::new(), opening: HashMap::new(), around: Vec::new() };
    let mut open: Vec<(usize, &str)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let (closes, opens) = match (token.kind, token.text) {
            (Kind::Punctuation, "(" | "[" | "{") => (None, Some(token.text)),
            (Kind::Punctuation, ")") => (Some("("), None),
            (Kind::Punctuation, "]") => (Some("["), None),
            (Kind::Punctuation, "}") => (Some("{"), None),
            (Kind::Template, text) => (text.starts_with('}').then_some("${"), text.ends_with("${").then_some("${")),
            _ => (None, None),
        };
        if let Some(wanted) = closes {
            match open.pop() {
                Some((from, kind)) if kind == wanted => {
                    pairs.closing.insert(from, index);
                    pairs.opening.insert(index, from);
                }
                _ => return Err((token, "Declaration or statement expected")),
            }
        }
        pairs.around.push(open.last().map(|(from, _)| *from));
        if let Some(kind) = opens {
            open.push((index, kind));
        }
    }
    match open.last() {
        None => Ok(pairs),
        Some((from, "(")) => Err((&tokens[*from], "')' expected")),
        Some((from, "[")) => Err((&tokens[*from], "']' expected")),
        Some((from, _)) => Err((&tokens[*from], "'}' expected")),
    }
}

struct Function<'a> {
    /// The name that it was declared with.
    declared: Option<&'a str>,
    /// The constant that it was assigned to.
    constant: Option<&'a str>,
    /// The tokens of its parameters.
    parameters: (usize, usize),
    /// The tokens of its body.
    body: (usize, usize),
}

impl<'a> Function<'a> {
    fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.constant.into_iter().chain(self.declared)
    }
}

struct Rules<'a> {
    source: &'a str,
    tokens: &'a [Token<'a>],
    /// For each token that opens a bracket or a substitution, the one that closes it.
    closing: HashMap<usize, usize>,
    /// The other way round.
    opening: HashMap<usize, usize>,
    /// For each token, the one that opens the innermost bracket around it.
    around: Vec<Option<usize>>,
    /// For each token, the first from it on that ends an expression around it.
    ends: Vec<usize>,
    functions: Vec<Function<'a>>,
    /// How many functions have each name, and how many of them as constants.
    named: HashMap<&'a str, (usize, usize)>,
    /// Constants that are objects of the language: `const m = Math`.
    aliases: HashMap<&'a str, &'a str>,
    /// How often each name is declared as a variable or a parameter.
    variables: HashMap<&'a str, usize>,
    /// What is refused, and at which token.
    found: Vec<(usize, CodeError)>,
}

impl<'a> Rules<'a> {
    fn text(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| token.text)
    }

    fn before(&self, index: usize, steps: usize) -> &'a str {
        index.checked_sub(steps).map_or("", |before| self.text(before))
    }

    fn is_word(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.kind == Kind::Word)
    }

    /// A word that may name something.
    fn is_name(&self, index: usize) -> bool {
        self.is_word(index) && !RESERVED.contains(&self.text(index))
    }

    fn refuse(&mut self, index: usize, value: impl Into<String>) {
        let Some(token) = self.tokens.get(index).filter(|_| self.found.len() < MAX_CODE_ERRORS) else { return };
        self.found.push((index, CodeError::lint(self.source, token, value)));
    }

    /// A word that is the name of a property: `.catch`, `{ in: … }`, `{ try() { … } }`.
    fn is_property(&self, index: usize) -> bool {
        let is_key = self.is_first_in_object(index) && self.text(index + 1) == ":";
        matches!(self.before(index, 1), "." | "?.") || is_key || self.is_method(index)
    }

    /// Whether the token begins a property of an object or of a pattern.
    fn is_first_in_object(&self, index: usize) -> bool {
        let open = self.around.get(index).copied().flatten();
        matches!(self.before(index, 1), "{" | ",")
            && open.is_some_and(|open| self.text(open) == "{" && !self.tokens[open].statement)
    }

    /// The name in `{ name() { … } }`.
    fn is_method(&self, index: usize) -> bool {
        self.is_first_in_object(index)
            && self.text(index + 1) == "("
            && self.closing.get(&(index + 1)).is_some_and(|close| self.text(close + 1) == "{")
    }

    /// The name in `function name() { … }`.
    fn is_declared(&self, index: usize) -> bool {
        self.before(index, 1) == "function" || (self.before(index, 1) == "*" && self.before(index, 2) == "function")
    }

    /// Whether the token begins a line.
    fn begins_line(&self, index: usize) -> bool {
        match (self.tokens.get(index), index.checked_sub(1).and_then(|before| self.tokens.get(before))) {
            (Some(token), Some(before)) => token.line > before.line,
            _ => true,
        }
    }

    /// Where each expression ends, from the last token to the first, so that the time is linear.
    fn find_ends(&self) -> Vec<usize> {
        let mut ends = vec![self.tokens.len(); self.tokens.len() + 1];
        for at in (0..self.tokens.len()).rev() {
            let statement = matches!(
                self.text(at),
                "const"
                    | "let"
                    | "var"
                    | "return"
                    | "if"
                    | "for"
                    | "switch"
                    | "export"
                    | "function"
                    | "import"
                    | "break"
            );
            let is_end = matches!(self.text(at), "," | ";" | ")" | "]" | "}") || (statement && self.begins_line(at));
            ends[at] = if is_end { at } else { ends[self.next(at)] };
        }
        ends
    }

    /// The next token at the same depth. A template goes on from the token that closes its substitution.
    fn next(&self, at: usize) -> usize {
        match self.closing.get(&at) {
            Some(close) if self.tokens[at].kind == Kind::Template => *close,
            Some(close) => close + 1,
            None => at + 1,
        }
    }

    /// Where the expression ends that begins here: the token after it.
    fn end_of_expression(&self, from: usize) -> usize {
        if from >= self.tokens.len() || matches!(self.text(from), "," | ";" | ")" | "]" | "}") {
            from
        } else {
            self.ends[self.next(from)]
        }
    }

    /// The constant to which the expression that begins here is assigned.
    fn constant(&self, from: usize) -> Option<&'a str> {
        let assigned = self.before(from, 1) == "=" && matches!(self.before(from, 3), "const" | "let" | "var");
        assigned.then(|| self.before(from, 2))
    }

    fn find_functions(&self) -> Vec<Function<'a>> {
        let mut functions = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            if token.kind == Kind::Word && token.text == "function" && !self.is_property(index) {
                let from = index + 1 + usize::from(self.text(index + 1) == "*");
                let declared = self.is_name(from).then(|| self.text(from));
                let open = from + usize::from(declared.is_some());
                if let Some(close) = self.closing.get(&open) {
                    let end = self.closing.get(&(close + 1)).copied().unwrap_or(close + 1);
                    let constant = self.constant(index);
                    functions.push(Function { declared, constant, parameters: (open, *close), body: (close + 1, end) });
                }
            } else if token.kind == Kind::Word && self.is_method(index) {
                if let Some(close) = self.closing.get(&(index + 1)) {
                    let end = self.closing.get(&(close + 1)).copied().unwrap_or(close + 1);
                    let parameters = (index + 1, *close);
                    functions.push(Function { declared: None, constant: None, parameters, body: (close + 1, end) });
                }
            } else if token.kind == Kind::Punctuation && token.text == "=>" && index > 0 {
                let from = match self.before(index, 1) {
                    ")" => self.opening.get(&(index - 1)).copied().unwrap_or(index - 1),
                    _ => index - 1,
                };
                let end = match self.closing.get(&(index + 1)) {
                    Some(close) if self.text(index + 1) == "{" => *close,
                    _ => self.end_of_expression(index + 1),
                };
                let constant = self.constant(from);
                functions.push(Function {
                    declared: None,
                    constant,
                    parameters: (from, index - 1),
                    body: (index + 1, end),
                });
            }
        }
        functions
    }

    /// Every name that a declaration, a pattern or a list of parameters has.
    fn find_variables(&self) -> HashMap<&'a str, usize> {
        let mut variables = HashMap::new();
        let mut add = |from: usize, to: usize| {
            for index in from..to {
                if self.is_name(index) && !matches!(self.before(index, 1), "." | "?.") {
                    *variables.entry(self.text(index)).or_insert(0) += 1;
                }
            }
        };
        for function in &self.functions {
            add(function.parameters.0, function.parameters.1 + 1);
        }
        for (index, token) in self.tokens.iter().enumerate() {
            if token.kind != Kind::Word || self.is_property(index) {
                continue;
            }
            match token.text {
                "const" | "let" | "var" => {
                    let mut at = index + 1;
                    loop {
                        let end = self.closing.get(&at).map_or(at + 1, |close| close + 1);
                        add(at, end);
                        let next = if self.text(end) == "=" { self.end_of_expression(end + 1) } else { end };
                        if self.text(next) != "," {
                            break;
                        }
                        at = next + 1;
                    }
                }
                "catch" => add(index + 2, self.closing.get(&(index + 1)).copied().unwrap_or(index)),
                "import" => {
                    let end = (index..self.tokens.len()).find(|at| self.tokens[*at].kind == Kind::Text);
                    add(index + 1, end.unwrap_or(index + 1));
                }
                _ => {}
            }
        }
        variables
    }

    fn find_aliases(&self) -> HashMap<&'a str, &'a str> {
        let mut aliases = HashMap::new();
        for index in 0..self.tokens.len() {
            let is_object = self.is_name(index) && self.object(self.text(index)).is_some();
            if is_object
                && !matches!(self.text(index + 1), "." | "?." | "[" | "(")
                && let Some(alias) = self.constant(index)
                && self.variables.get(alias) == Some(&1)
            {
                aliases.insert(alias, self.text(index));
            }
        }
        aliases
    }

    /// The object of the language that has this name.
    fn object(&self, name: &str) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
        let name = self.aliases.get(name).copied().unwrap_or(name);
        OBJECTS.iter().find(|(object, _, _)| *object == name && !self.variables.contains_key(name))
    }

    /// Whether the name is that of a function and of nothing else.
    fn names_function(&self, name: &str) -> bool {
        self.named.get(name).is_some_and(|(_, constants)| *constants == self.variables.get(name).copied().unwrap_or(0))
    }

    /// Whether the expression from `from` up to `to` is a function.
    fn is_function(&self, from: usize, to: usize) -> bool {
        let arrow = match self.closing.get(&from) {
            Some(close) if self.text(from) == "(" => close + 1,
            _ => from + 1,
        };
        (self.is_word(from) && self.text(from) == "function")
            || (self.text(arrow) == "=>" && arrow < to)
            || (to == from + 1 && self.is_name(from) && self.names_function(self.text(from)))
    }

    /// Whether an argument is a function, or may be one: in parentheses, as a branch of a condition, or in a list that is spread.
    fn passes_function(&self, from: usize, to: usize) -> bool {
        let mut parts = vec![(from, to)];
        while let Some((from, to)) = parts.pop() {
            if from >= to {
                continue;
            }
            if self.is_function(from, to) {
                return true;
            }
            let whole = self.closing.get(&from).is_some_and(|close| close + 1 == to);
            match self.text(from) {
                "(" if whole => parts.push((from + 1, to - 1)),
                "..." if self.text(from + 1) == "[" && self.closing.get(&(from + 1)) == Some(&(to - 1)) => {
                    let mut at = from + 2;
                    while at < to - 1 {
                        let end = self.end_of_expression(at);
                        parts.push((at, end));
                        at = end.max(at) + 1;
                    }
                }
                "..." => parts.push((from + 1, to)),
                _ => {
                    let mut at = from;
                    while at < to && self.text(at) != "?" {
                        at = self.next(at);
                    }
                    let (mut depth, mut colon) = (0, at);
                    while colon < to {
                        match self.text(colon) {
                            "?" => depth += 1,
                            ":" => depth -= 1,
                            _ => {}
                        }
                        if depth == 0 {
                            parts.extend([(at + 1, colon), (colon + 1, to)]);
                            break;
                        }
                        colon = self.next(colon);
                    }
                }
            }
        }
        false
    }

    fn is_known(&self, name: &str) -> bool {
        self.variables.contains_key(name)
            || GLOBALS.contains(&name)
            || OBJECTS.iter().any(|(object, _, _)| *object == name)
            || self.named.contains_key(name)
    }

    fn run(&mut self) {
        for index in 0..self.tokens.len() {
            match (self.tokens[index].kind, self.text(index)) {
                (Kind::Word, text) if self.is_property(index) => self.check_method(index, text),
                (Kind::Word, text) => self.check_word(index, text),
                (Kind::Punctuation, text @ ("++" | "--" | "~")) => {
                    self.refuse(index, format!("The operator {text} is not supported"));
                }
                (Kind::Punctuation, "@") => self.refuse(index, "Decorators are not supported."),
                (Kind::Punctuation, "(") => self.check_call(index),
                (Kind::Punctuation, "=" | "=>") => self.check_use(index),
                _ => {}
            }
        }
        self.check_recursion();
        self.check_context();
    }

    fn check_word(&mut self, index: usize, text: &'a str) {
        if let Some((_, message)) = REFUSED_WORDS.iter().find(|(word, _)| *word == text) {
            // The `while` of `do … while` is part of it.
            let of_do = text == "while"
                && self.before(index, 1) == "}"
                && self.opening.get(&(index - 1)).is_some_and(|open| self.before(*open, 1) == "do");
            if !of_do {
                self.refuse(index, *message);
            }
            return;
        }
        match text {
            "async" if self.text(index + 1) == "function" || self.is_async_arrow(index) => {
                self.refuse(index, "Async functions are not supported.");
            }
            "function" if self.text(index + 1) == "*" => self.refuse(index, "Generator functions are not supported."),
            "in" if !self.is_in_for(index) => self.refuse(index, "in operator is not supported. Use Object.hasOwn()."),
            "for" if self.has_counter(index) => self.refuse(index, "For statements are not supported."),
            "return" if !self.begins_line(index + 1) => self.check_use(index),
            "new" if self.text(index + 1) == "Promise" => self.refuse(index, "Promise is not supported"),
            "new" => self.refuse(index, "The operator new is not supported"),
            "import" if matches!(self.text(index + 1), "(" | ".") => {
                self.refuse(index, "Dynamic import() and import.meta are not supported.");
            }
            _ if text.starts_with("__appsync") => self.refuse(index, format!("The name {text} is reserved.")),
            _ if text.starts_with('#') => self.refuse(index, "Private names are not supported."),
            _ if !self.is_name(index) || matches!(self.before(index, 1), "as" | "break" | "class" | "new") => {}
            _ if self.is_label(index) => self.refuse(index, "Labeled statements are not supported."),
            _ => self.check_name(index, text),
        }
    }

    fn check_name(&mut self, index: usize, name: &'a str) {
        if !self.is_known(name) {
            self.refuse(index, format!("Cannot find name '{name}'."));
        }
        if let Some((object, kind, methods)) = self.object(name) {
            let (method, after) = match self.text(index + 1) {
                "." | "?." => (self.text(index + 2), index + 3),
                "[" => (self.text(index + 2).trim_matches(['"', '\'']), index + 4),
                "(" if matches!(*object, "Number" | "Object" | "String") => {
                    return self.refuse(index, format!("{object}() is not supported."));
                }
                _ => return,
            };
            if self.text(after) == "(" && !methods.contains(&method) {
                self.refuse(index, format!("Method {kind}.{method} is not implemented"));
            }
        }
    }

    /// `.padStart(`: a method that APPSYNC_JS does not have. Those of `Object` and the like are checked with their names.
    fn check_method(&mut self, index: usize, name: &'a str) {
        let called = self.text(index + 1) == "(" || (self.text(index + 1) == "?." && self.text(index + 2) == "(");
        let of_object = self.object(self.before(index, 2)).is_some();
        if !called || of_object || !matches!(self.before(index, 1), "." | "?.") {
            return;
        }
        if let Some((kind, _)) = MISSING_METHODS.iter().find(|(_, methods)| methods.contains(&name)) {
            self.refuse(index, format!("Method {kind}.{name} is not implemented"));
        }
    }

    /// A call: are its arguments functions?
    fn check_call(&mut self, open: usize) {
        let Some(close) = self.closing.get(&open).copied() else { return };
        let Some(callee) = open.checked_sub(1 + usize::from(self.before(open, 1) == "?.")) else { return };
        let declares = self.is_declared(callee) || self.is_method(callee);
        let calls = self.is_name(callee) || self.is_property(callee) || matches!(self.text(callee), ")" | "]");
        if declares || !calls || self.text(close + 1) == "=>" {
            return;
        }
        let is_method = self.is_word(callee) && matches!(self.before(callee, 1), "." | "?.");
        let takes_functions = is_method && TAKE_FUNCTIONS.contains(&self.text(callee));
        let mut from = open + 1;
        while from < close {
            let end = self.end_of_expression(from);
            if !takes_functions && self.passes_function(from, end) {
                self.refuse(callee, "Functions can not be passed as an argument");
                return;
            }
            from = end.max(from) + 1;
        }
        if is_method && self.text(callee) == "sort" && open + 1 < close {
            self.refuse(callee, "Array.prototype.sort() doesn't support arguments.");
        }
    }

    /// `return f`, `() => f` and `a = f`, where `f` is a function.
    fn check_use(&mut self, index: usize) {
        let from = index + 1;
        let end = self.end_of_expression(from);
        // An expression on one line ends with it, if nothing else ends it.
        let end = if end > from + 1 && self.begins_line(from + 1) { from + 1 } else { end };
        if !self.is_function(from, end) {
            return;
        }
        match self.text(index) {
            "=" if self.is_name(from) && end == from + 1 => self.refuse(from, "re-assigning function is not allowed"),
            "return" | "=>" => self.refuse(index, "returning a function is not allowed"),
            _ => {}
        }
    }

    fn is_async_arrow(&self, index: usize) -> bool {
        match self.closing.get(&(index + 1)) {
            Some(close) => self.text(close + 1) == "=>",
            None => self.is_name(index + 1) && self.text(index + 2) == "=>",
        }
    }

    /// `name:` where a statement begins.
    fn is_label(&self, index: usize) -> bool {
        let is_colon = self.text(index + 1) == ":" && self.tokens[index + 1].statement;
        let Some(before) = index.checked_sub(1).and_then(|before| self.tokens.get(before)) else { return is_colon };
        let begins = match (before.kind, before.text) {
            (Kind::Punctuation, ";" | "{" | "}" | ")" | ":") | (Kind::Word, "else" | "do") => true,
            (Kind::Punctuation, text) => text == "]" && self.begins_line(index),
            (Kind::Word, "case") => false,
            _ => self.begins_line(index),
        };
        is_colon && begins
    }

    /// Whether a `for` counts: `for (a; b; c)`.
    fn has_counter(&self, index: usize) -> bool {
        let Some(close) = self.closing.get(&(index + 1)) else { return false };
        let mut at = index + 2;
        while at < *close {
            if self.text(at) == ";" {
                return true;
            }
            at = self.closing.get(&at).map_or(at, |inner| *inner) + 1;
        }
        false
    }

    /// Whether the word is that of `for (… in …)`.
    fn is_in_for(&self, index: usize) -> bool {
        let Some(open) = self.around.get(index).copied().flatten() else { return false };
        let variable = open + 1 + usize::from(matches!(self.text(open + 1), "const" | "let" | "var"));
        self.before(open, 1) == "for" && self.closing.get(&variable).map_or(variable + 1, |end| end + 1) == index
    }

    /// Calls by which a function calls itself, directly or through others.
    fn check_recursion(&mut self) {
        let mut calls: Vec<(usize, &'a str, &'a str)> = Vec::new();
        let mut functions: Vec<&Function<'a>> =
            self.functions.iter().filter(|function| function.names().next().is_some()).collect();
        functions.sort_by_key(|function| function.body.0);
        let mut functions = functions.into_iter().peekable();
        let mut around: Vec<&Function<'a>> = Vec::new();
        for index in 0..self.tokens.len() {
            while let Some(function) = functions.next_if(|function| function.body.0 <= index) {
                around.push(function);
            }
            while around.pop_if(|function| function.body.1 <= index).is_some() {}
            let called = self.is_name(index) && self.text(index + 1) == "(";
            if !called || self.is_property(index) || self.is_declared(index) {
                continue;
            }
            if let Some(caller) = around.last()
                && self.names_function(self.text(index))
            {
                calls.extend(caller.names().map(|caller| (index, caller, self.text(index))));
            }
        }
        let cycles = Cycles::of(&calls);
        for (index, caller, callee) in calls {
            if self.found.len() >= MAX_CODE_ERRORS {
                return;
            }
            if let Some(chain) = cycles.chain(callee, caller) {
                let cycle = chain.join(" <-");
                let cycle = format!("Recursive function calls not supported. Detected cycle in {caller} <-{cycle}");
                self.refuse(index, cycle);
            }
        }
    }

    /// Assignments to the context and to its members, in the two handlers.
    fn check_context(&mut self) {
        let handlers: Vec<(usize, (usize, usize))> = self
            .functions
            .iter()
            .filter(|function| {
                function.constant.or(function.declared).is_some_and(|name| matches!(name, "request" | "response"))
            })
            // Without parentheses, the parameters are the name itself.
            .map(|function| (function.parameters.0 + usize::from(!self.is_name(function.parameters.0)), function.body))
            .filter(|(parameter, _)| self.is_name(*parameter))
            .collect();
        for (parameter, body) in handlers {
            let name = self.text(parameter);
            for index in body.0..body.1 {
                if self.text(index) != name || !self.is_name(index) || self.is_property(index) {
                    continue;
                }
                let (end, member) = match (self.text(index + 1), self.closing.get(&(index + 1))) {
                    (".", _) => (index + 3, Some(self.text(index + 2))),
                    ("[", Some(close)) => (close + 1, Some(self.text(index + 2).trim_matches(['"', '\'']))),
                    _ => (index + 1, None),
                };
                let assigned = matches!(
                    self.text(end),
                    "=" | "+="
                        | "-="
                        | "*="
                        | "/="
                        | "%="
                        | "**="
                        | "&="
                        | "|="
                        | "^="
                        | "<<="
                        | ">>="
                        | ">>>="
                        | "&&="
                        | "||="
                        | "??="
                );
                let declared = matches!(self.before(index, 1), "const" | "let" | "var");
                let deleted = self.before(index, 1) == "delete" && !matches!(self.text(end), "." | "[" | "?.");
                match member {
                    Some(member) if assigned || deleted => {
                        self.refuse(index, format!("{name} is readonly. Adding/Updating {member} is not supported."));
                    }
                    None if assigned && !declared => {
                        self.refuse(index, format!("{name} is readonly and re-assignment is not supported."));
                    }
                    _ => {}
                }
            }
        }
    }
}

/// The calls that may be part of a cycle.
struct Cycles<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> Cycles<'a> {
    /// Leaves out, again and again, every function that calls none of the others or that none of them calls.
    fn of(calls: &[(usize, &'a str, &'a str)]) -> Self {
        let mut edges: HashSet<(&'a str, &'a str)> =
            calls.iter().map(|(_, caller, callee)| (*caller, *callee)).collect();
        for forwards in [true, false] {
            let turned =
                |(caller, callee): (&'a str, &'a str)| if forwards { (caller, callee) } else { (callee, caller) };
            let mut left: HashMap<&str, usize> = HashMap::new();
            let mut into: HashMap<&str, Vec<&str>> = HashMap::new();
            for (from, to) in edges.iter().copied().map(turned) {
                *left.entry(from).or_default() += 1;
                left.entry(to).or_default();
                into.entry(to).or_default().push(from);
            }
            let mut without: Vec<&str> = left.iter().filter(|(_, left)| **left == 0).map(|(name, _)| *name).collect();
            while let Some(name) = without.pop() {
                for from in into.remove(name).unwrap_or_default() {
                    if let Some(left) = left.get_mut(from) {
                        *left -= 1;
                        if *left == 0 {
                            without.push(from);
                        }
                    }
                }
            }
            edges.retain(|edge| left[edge.0] > 0 && left[edge.1] > 0);
        }
        let mut graph: HashMap<&str, Vec<&str>> = HashMap::new();
        for (_, caller, callee) in calls.iter().filter(|(_, caller, callee)| edges.contains(&(*caller, *callee))) {
            graph.entry(caller).or_default().push(callee);
        }
        Self(graph)
    }

    /// A shortest chain of calls from one function to another, both included.
    fn chain(&self, from: &'a str, to: &'a str) -> Option<Vec<&'a str>> {
        let mut before: HashMap<&str, &'a str> = HashMap::new();
        let mut next = VecDeque::from([from]);
        let mut seen = HashSet::from([from]);
        while let Some(name) = next.pop_front() {
            if name == to {
                let mut chain = vec![name];
                let mut at = name;
                while let Some(previous) = before.get(at) {
                    chain.push(previous);
                    at = previous;
                }
                chain.reverse();
                return Some(chain);
            }
            for callee in self.0.get(name).into_iter().flatten() {
                if seen.insert(callee) {
                    before.insert(callee, name);
                    next.push_back(callee);
                }
            }
        }
        None
    }
}
