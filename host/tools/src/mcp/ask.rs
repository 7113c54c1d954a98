//! Asking a server for its tools: bounded, made printable, schemas weighed.

use super::{ListedTool, Listing, pins};
use opcell_schema::Schema;
use opcell_types::{Value, text::printable};
use rmcp::{
    RoleClient, ServiceError,
    model::{PaginatedRequestParams, Tool},
    service::Peer,
};
use std::sync::Arc;

/// Tools of one server that are used; a model could not choose among more.
const MAX_TOOLS: usize = 512;

/// Pages of one listing.
const MAX_PAGES: usize = 64;

/// Bytes of all names, descriptions and schemas of one listing: what is longer would fill memory page by page, and no
/// model could read it.
const MAX_LISTING: usize = 8 << 20;

/// Bytes of a description that models are shown.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// Bytes of a name.
const NAME_BYTES: usize = 128;

/// Asks a server for all of its tools.
pub(super) async fn ask(peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
    let mut found: Vec<Tool> = Vec::new();
    let (mut cursor, mut truncated, mut bytes) = (None, false, 0_usize);
    for page in 1.. {
        let request = PaginatedRequestParams::default().with_cursor(cursor.take());
        let listed = peer.list_tools(Some(request)).await?;
        let fitting = listed.tools.into_iter().take_while(|tool| {
            bytes = bytes.saturating_add(size(tool));
            bytes <= MAX_LISTING
        });
        found.extend(fitting);
        cursor = listed.next_cursor;
        truncated = found.len() > MAX_TOOLS || bytes > MAX_LISTING || (cursor.is_some() && page == MAX_PAGES);
        if cursor.is_none() || truncated {
            break;
        }
    }
    found.truncate(MAX_TOOLS);
    // Weighing takes a while where a schema is made to; the runtime has other things to do.
    let weighed = tokio::task::spawn_blocking(move || weigh(found)).await;
    Ok(Listing { truncated, ..weighed.unwrap_or_default() })
}

/// Bytes that a tool takes as JSON.
fn size(tool: &Tool) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, tool) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

pub(super) fn weigh(found: Vec<Tool>) -> Listing {
    let mut listing = Listing::default();
    for tool in found {
        let name = printable(&tool.name, NAME_BYTES);
        let schema = serde_json::Value::Object(tool.input_schema.as_ref().clone());
        let refused = if name != *tool.name {
            Err("its name is too long or cannot be printed".to_owned())
        } else if listing.tools.contains_key(&name) {
            Err("it is listed twice".to_owned())
        } else {
            // The server checks its arguments as well.
            Schema::compile_leniently(&schema)
        };
        match refused {
            Ok(compiled) => {
                let description = tool.description.or_else(|| tool.title.map(Into::into)).unwrap_or_default();
                let listed = ListedTool {
                    // Of what was sent, also of what a person does not see.
                    digest: pins::digest(&name, &description, &schema.to_string()),
                    name: name.clone(),
                    description: printable(&description, DESCRIPTION_BYTES),
                    parameters: Value::from(schema),
                    schema: Arc::new(compiled),
                };
                listing.tools.insert(name, listed);
            }
            Err(why) => {
                listing.tools.shift_remove(&name);
                listing.refused.insert(name, why);
            }
        }
    }
    listing
}
