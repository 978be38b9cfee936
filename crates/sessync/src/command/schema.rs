//! `sessync schema`: print the SQL of the table and its views, or run it.

use std::io::Write;

use serde_json::json;

use super::{Error, Session, print};
use crate::clock::Clock as _;
use crate::outside::bigquery::QUESTION;
use crate::schema;

pub(super) async fn run(session: &Session, create: bool, out: &mut dyn Write) -> Result<u8, Error> {
    let table = &session.project.config.table;
    let statements = schema::ddl(table);
    if !create {
        for statement in statements {
            out.write_all(format!("{statement};\n\n").as_bytes())?;
        }
        return Ok(0);
    }
    for statement in statements {
        session.bigquery.execute(&statement, session.clock.now(), QUESTION).await?;
    }
    let (table, view, usage) = (table.sql(), schema::view(table).sql(), schema::usage(table).sql());
    match session.json {
        true => print::json(&json!({"table": table, "view": view, "usage": usage}), out)?,
        false => writeln!(out, "The table {table} and its views {view} and {usage} are there.")?,
    }
    Ok(0)
}
