//! Editing labels.

use crate::api::{Api, encode};
use crate::repository::Repository;
use crate::{EditedLabels, LabelEdit};
use opcell_sdk::{Failure, Success};
use serde_json::json;

/// What the API says to the removal of a label that is not there.
const ABSENT: &str = "Label does not exist";

pub fn edit(edit: LabelEdit) -> Result<Success<EditedLabels>, Failure> {
    let LabelEdit { number, add, remove, target, repo, api } = edit;
    let target = target.unwrap_or_default();
    let summary = summary(target.name(), number, &add, &remove);
    if !add.is_empty() || !remove.is_empty() {
        let api = Api::of(api.as_deref(), &Repository::find(repo.as_deref())?);
        // Pull requests are issues to this part of the API.
        if !add.is_empty() {
            api.post(&format!("/issues/{number}/labels"), &json!({ "labels": add }))?;
        }
        for label in &remove {
            api.delete(&format!("/issues/{number}/labels/{}", encode(label)), ABSENT)?;
        }
    }
    Ok(Success::new(EditedLabels { number, target, added_labels: add, removed_labels: remove }).with_summary(summary))
}

fn summary(target: &str, number: u64, add: &[String], remove: &[String]) -> String {
    if add.is_empty() && remove.is_empty() {
        return format!("No label changes on {target} #{number}");
    }
    let part = |sign: &str, labels: &[String]| {
        if labels.is_empty() { String::new() } else { format!(" {sign}[{}]", labels.join(",")) }
    };
    format!("Edited labels on {target} #{number}{}{}", part("+", add), part("-", remove))
}

#[cfg(test)]
mod tests {
    use crate::edit_labels;
    use crate::testing::Server;
    use opcell_sdk::testing::{Host, invoke};
    use serde_json::json;

    #[test]
    fn labels_are_added_and_removed() {
        let server = Server::new().issue(7, "Engine", &["bug", "good first issue"]);
        let labels = server.labels_of(7);
        let _host = server.install();

        let arguments = json!({ "repo": "acme/rocket", "number": 7, "add": ["wait", "a/b"], "remove": ["good first issue", "gone"] });
        let edited = invoke::<edit_labels>(&arguments).unwrap();

        assert_eq!(*labels.borrow(), ["bug", "wait", "a/b"]);
        assert_eq!(edited.summary.as_deref(), Some("Edited labels on issue #7 +[wait,a/b] -[good first issue,gone]"));
        assert_eq!(
            edited.data,
            json!({ "number": 7, "target": "issue", "added-labels": ["wait", "a/b"], "removed-labels": ["good first issue", "gone"] })
        );
    }

    #[test]
    fn nothing_to_edit_asks_nobody() {
        let _host = Host::new().strict().install();

        let edited = invoke::<edit_labels>(&json!({ "number": 7, "target": "pr" })).unwrap();

        assert_eq!(edited.summary.as_deref(), Some("No label changes on pr #7"));
    }

    #[test]
    fn an_unknown_issue_is_a_failure() {
        let _host = Server::new().install();

        for change in [json!({ "add": ["x"] }), json!({ "remove": ["x"] })] {
            let mut arguments = json!({ "repo": "acme/rocket", "number": 8 });
            arguments.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            assert_eq!(invoke::<edit_labels>(&arguments).unwrap_err().reason, "github/http-error");
        }
    }

    #[test]
    fn a_denied_tool_is_a_denial_with_its_remedy() {
        let _host = Host::new().install();

        let failure = invoke::<edit_labels>(&json!({ "repo": "acme/rocket", "number": 7, "add": ["x"] })).unwrap_err();

        assert_eq!(failure.reason, "denied");
        assert_eq!(failure.details.unwrap()["capability"], "tool http.fetch");
    }

    #[test]
    fn a_missing_number_is_refused() {
        assert_eq!(invoke::<edit_labels>(&json!({ "number": null })).unwrap_err().reason, "invalid-arguments");
    }
}
