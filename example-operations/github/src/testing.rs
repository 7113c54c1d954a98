//! A server that speaks as much of the GitHub API as the plugin uses, behind the tool `http.fetch`.

use opcell_sdk::testing::{Host, HostGuard};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const ROOT: &str = "https://api.github.com/repos/acme/rocket";

#[derive(Default)]
pub struct Server {
    issues: BTreeMap<u64, Issue>,
}

struct Issue {
    title: String,
    labels: Rc<RefCell<Vec<String>>>,
    /// Of a pull request.
    branch: Option<String>,
}

impl Server {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn issue(mut self, number: u64, title: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.issues
            .insert(number, Issue { title: title.to_owned(), labels: Rc::new(RefCell::new(labels)), branch: None });
        self
    }

    pub fn pull_request(self, number: u64, title: &str, labels: &[&str], branch: &str) -> Self {
        let mut server = self.issue(number, title, labels);
        server.issues.get_mut(&number).unwrap().branch = Some(branch.to_owned());
        server
    }

    pub fn labels_of(&self, number: u64) -> Rc<RefCell<Vec<String>>> {
        Rc::clone(&self.issues[&number].labels)
    }

    pub fn install(self) -> HostGuard {
        Host::new().strict().tool("http.fetch", move |request| Ok(self.answer(request))).install()
    }

    fn answer(&self, request: &Value) -> Value {
        assert_eq!(request["headers"]["accept"], "application/vnd.github+json");
        assert!(request["headers"].get("authorization").is_none(), "credentials are the host's");
        let url = request["url"].as_str().unwrap();
        let Some(path) = url.strip_prefix(ROOT) else { return refusal(404, "Not Found") };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (request["method"].as_str().unwrap(), parts.as_slice()) {
            ("GET", ["issues"]) => self.list(query),
            ("GET", ["pulls", number]) => {
                let branch = self.issues[&number.parse().unwrap()].branch.clone().unwrap();
                success(json!({ "head": { "ref": branch }, "base": { "ref": "main" } }), None)
            }
            ("POST", ["issues", number, "labels"]) => {
                let Some(issue) = self.issues.get(&number.parse().unwrap()) else { return refusal(404, "Not Found") };
                let body: Value = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
                let added = body["labels"].as_array().unwrap().iter().map(|label| label.as_str().unwrap().to_owned());
                issue.labels.borrow_mut().extend(added);
                success(json!([]), None)
            }
            ("DELETE", ["issues", number, "labels", label]) => {
                let Some(issue) = self.issues.get(&number.parse().unwrap()) else { return refusal(404, "Not Found") };
                let label = decode(label);
                let mut labels = issue.labels.borrow_mut();
                let before = labels.len();
                labels.retain(|other| *other != label);
                if labels.len() == before { refusal(404, "Label does not exist") } else { success(json!([]), None) }
            }
            other => panic!("no such route: {other:?}"),
        }
    }

    fn list(&self, query: &str) -> Value {
        let query: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        assert_eq!(query["state"], "open");
        let wanted: Vec<String> =
            query.get("labels").map(|labels| labels.split(',').map(decode).collect()).unwrap_or_default();
        let page: usize = query["page"].parse().unwrap();
        let per_page: usize = query["per_page"].parse().unwrap();
        let fits = |issue: &Issue| wanted.iter().all(|label| issue.labels.borrow().contains(label));
        let all: Vec<Value> = self.issues.iter().filter(|(_, issue)| fits(issue)).map(described).collect();
        let shown: Vec<Value> = all.iter().skip((page - 1) * per_page).take(per_page).cloned().collect();
        let link = (page * per_page < all.len()).then_some("<https://elsewhere.example/page>; rel=\"next\"");
        success(json!(shown), link)
    }
}

fn described((number, issue): (&u64, &Issue)) -> Value {
    let segment = if issue.branch.is_some() { "pull" } else { "issues" };
    let labels: Vec<Value> = issue.labels.borrow().iter().map(|label| json!({ "name": label })).collect();
    let mut described = json!({
        "number": number, "title": issue.title, "state": "open", "labels": labels,
        "html_url": format!("https://github.com/acme/rocket/{segment}/{number}"),
    });
    if issue.branch.is_some() {
        described["pull_request"] = json!({});
    }
    described
}

fn success(body: Value, link: Option<&str>) -> Value {
    let headers = link.map_or_else(|| json!({}), |link| json!({ "Link": link }));
    json!({ "status": 200, "headers": headers, "body": body.to_string() })
}

fn refusal(status: u16, message: &str) -> Value {
    json!({ "status": status, "headers": {}, "body": json!({ "message": message }).to_string() })
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}
