//! The list of pages, and the files of the front end.

/// A file of the front end. [`asset!`](crate::asset) makes one.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    pub text: &'static str,
    /// Where it was when the program was built.
    #[cfg(debug_assertions)]
    pub path: &'static str,
}

impl Asset {
    /// The text. In a debug build with `ICHIDO_CONSOLE_FROM_DISK` set, the file as it is now, so that a change needs no build.
    pub(crate) fn now(self) -> std::borrow::Cow<'static, str> {
        #[cfg(debug_assertions)]
        if std::env::var_os("ICHIDO_CONSOLE_FROM_DISK").is_some()
            && let Ok(text) = std::fs::read_to_string(self.path)
        {
            return text.into();
        }
        self.text.into()
    }
}

/// A file, named from the root of the crate: `asset!("web/kit.js")`.
#[macro_export]
macro_rules! asset {
    ($path:literal) => {
        $crate::Asset {
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path)),
            #[cfg(debug_assertions)]
            path: concat!(env!("CARGO_MANIFEST_DIR"), "/", $path),
        }
    };
}

/// A page: an ES module that exports `mount(root, kit, parameters)`.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The module is served under its name and `.js`.
    pub name: &'static str,
    pub title: &'static str,
    /// The path, with parameters in braces: `/keys/{namespace}/{key}`.
    pub path: &'static str,
    /// The group of the menu. Empty: not in the menu.
    pub group: &'static str,
    /// The capability without which there is no such page. Empty: none.
    pub needs: &'static str,
    pub script: Asset,
}

/// The groups of the menu.
pub const WATCH: &str = "Watch";
pub const TRY: &str = "Try";
pub const OPERATE: &str = "Operate";

/// The console's own pages. Locally, AWS's own paths are on the same port (`/schedules` lists the schedules), so operators' pages are
/// below `/operate/`. To add one, write `web/pages/NAME.js` and add a line.
#[rustfmt::skip]
pub const PAGES: &[Page] = &[
    Page { name: "overview", title: "Overview", path: "/", group: WATCH, needs: "overview", script: asset!("web/pages/overview.js") },
    Page { name: "keys", title: "Keys", path: "/keys", group: WATCH, needs: "keys", script: asset!("web/pages/keys.js") },
    Page { name: "life", title: "The life of a key", path: "/keys/{namespace}/{key}", group: "", needs: "keys", script: asset!("web/pages/life.js") },
    Page { name: "alarms", title: "Alarms", path: "/operate/alarms", group: OPERATE, needs: "alarms", script: asset!("web/pages/alarms.js") },
    Page { name: "dead-letters", title: "Dead letters", path: "/operate/dead-letters", group: OPERATE, needs: "deadLetters", script: asset!("web/pages/dead-letters.js") },
    Page { name: "schedules", title: "Schedules", path: "/operate/schedules", group: OPERATE, needs: "schedules", script: asset!("web/pages/schedules.js") },
    Page { name: "rollouts", title: "Rollouts", path: "/operate/rollouts", group: OPERATE, needs: "rollouts", script: asset!("web/pages/rollouts.js") },
    Page { name: "cost", title: "Cost", path: "/operate/cost", group: OPERATE, needs: "cost", script: asset!("web/pages/cost.js") },
    Page { name: "history", title: "Slack’s history", path: "/operate/history", group: OPERATE, needs: "history", script: asset!("web/pages/history.js") },
    Page { name: "metrics", title: "Metrics", path: "/operate/metrics", group: OPERATE, needs: "metrics", script: asset!("web/pages/metrics.js") },
];

/// The other files, served under their names.
pub(crate) const FILES: &[(&str, Asset)] = &[
    ("console.css", asset!("web/console.css")),
    ("console.js", asset!("web/console.js")),
    ("kit.js", asset!("web/kit.js")),
    ("chart.js", asset!("web/chart.js")),
    ("markdown.js", asset!("web/markdown.js")),
];

pub(crate) const INDEX: Asset = asset!("web/index.html");
