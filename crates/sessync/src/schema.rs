//! The SQL that creates the table and the view without duplicates.

use crate::outside::bigquery::Table;

/// A column of the table.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub required: bool,
    pub description: &'static str,
}

const fn column(name: &'static str, kind: &'static str, required: bool, description: &'static str) -> Column {
    Column { name, kind, required, description }
}

/// The columns, in this order.
pub const COLUMNS: &[Column] = &[
    column("uuid", "STRING", true, "the entry; nearly always unique"),
    column("timestamp", "TIMESTAMP", true, "when the entry was written"),
    column("session_id", "STRING", true, "the session"),
    column("agent_id", "STRING", false, "the agent, in a side chain"),
    column("is_sidechain", "BOOL", false, "whether an agent wrote it"),
    column("parent_uuid", "STRING", false, "the entry before it"),
    column("user_type", "STRING", false, ""),
    column("type", "STRING", true, "user, assistant, system, ..."),
    column("slug", "STRING", false, "the session's name"),
    column("request_id", "STRING", false, "the API request"),
    column("cwd", "STRING", false, "the working directory"),
    column("git_branch", "STRING", false, ""),
    column("version", "STRING", false, "of Claude Code"),
    column("message", "JSON", false, "what was said"),
    column("tool_use_result", "JSON", false, "what a tool returned"),
    column("developer_id", "STRING", true, "from the config"),
    column("hostname", "STRING", true, "the machine"),
    column("user_email", "STRING", true, "from the config"),
    column("project_name", "STRING", true, "from the config"),
    column("upload_batch_id", "STRING", true, "the batch: what sessync asks for when it is uncertain"),
    column("source_file", "STRING", true, "the log file, below the directory of all logs"),
    column("uploaded_at", "TIMESTAMP", true, "when the batch was made"),
];

/// The statements that create the table, partitioned by day and clustered by session and developer, and its view.
pub(crate) fn ddl(table: &Table) -> [String; 2] {
    let columns: Vec<String> = COLUMNS
        .iter()
        .map(|column| {
            let required = if column.required { " NOT NULL" } else { "" };
            let options = match column.description {
                "" => String::new(),
                text => format!(" OPTIONS (description = \"{text}\")"),
            };
            format!("  `{}` {}{required}{options}", column.name, column.kind)
        })
        .collect();
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {} (\n{}\n)\nPARTITION BY DATE(timestamp)\nCLUSTER BY session_id, developer_id\nOPTIONS (description = \"Session logs, uploaded by sessync\")",
        table.sql(),
        columns.join(",\n")
    );
    // Two rows of the same line differ at most in where and when they were uploaded. The content is part of the key
    // because some entries share a uuid. The timestamp is part of it so that a filter on it still selects partitions.
    let view = format!(
        "CREATE OR REPLACE VIEW {} AS\nSELECT * FROM {}\nWHERE TRUE\nQUALIFY ROW_NUMBER() OVER (\n  PARTITION BY timestamp, uuid, type, TO_JSON_STRING(message), TO_JSON_STRING(tool_use_result)\n  ORDER BY uploaded_at\n) = 1",
        view(table).sql(),
        table.sql(),
    );
    [create, view]
}

/// The view beside the table.
pub(crate) fn view(table: &Table) -> Table {
    Table { table: format!("{}_once", table.table), ..table.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_columns_it_promises_in_order() {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(
            names.join(", "),
            "uuid, timestamp, session_id, agent_id, is_sidechain, parent_uuid, user_type, type, slug, request_id, cwd, \
             git_branch, version, message, tool_use_result, developer_id, hostname, user_email, project_name, \
             upload_batch_id, source_file, uploaded_at"
        );
    }

    #[test]
    fn the_table_is_partitioned_by_day_and_clustered_by_session_and_developer() {
        let table = Table { project: "p".into(), dataset: "d".into(), table: "t".into(), location: "US".into() };
        let [create, view] = ddl(&table);
        assert!(create.contains("PARTITION BY DATE(timestamp)\nCLUSTER BY session_id, developer_id"), "{create}");
        assert!(view.starts_with("CREATE OR REPLACE VIEW `p.d.t_once`"), "{view}");
    }

    #[test]
    fn the_ready_queries_use_the_partition_and_the_view() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let sql = std::fs::read_to_string(&path).unwrap();
            assert!(sql.contains("FROM `PROJECT.DATASET.TABLE_once`"), "{}", path.display());
            assert!(sql.contains("WHERE timestamp >= TIMESTAMP_SUB("), "{}", path.display());
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
        names.sort();
        assert_eq!(names, ["activity", "developers", "errors", "messages", "sessions", "tools"]);
    }
}
