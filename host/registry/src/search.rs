//! A static index of plugins: one JSON file that anybody can serve.

use serde::{Deserialize, Serialize};

/// The largest index that is read.
pub const MAX_INDEX: u64 = 8 << 20;

const MAX_ENTRIES: usize = 100_000;

/// A list of plugins: `{"plugins": [{"name": …, "summary": …, "source": "oci://…", "publisher": "ed25519:…"}]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    plugins: Vec<IndexEntry>,
}

/// One plugin of an index. It is what its author says; nothing of it is checked before the plugin is added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexEntry {
    /// The name.
    pub name: String,
    /// One sentence.
    #[serde(default)]
    pub summary: String,
    /// A reference.
    pub source: String,
    /// The key of its publisher, to compare with the one that signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// With what is wrong, and where.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let expected = "an index is {\"plugins\": [{\"name\": \"…\", \"source\": \"oci://…\", \"summary\": \"…\"}]}";
        let index: Self = serde_json::from_slice(bytes).map_err(|error| format!("{error}; {expected}"))?;
        if index.plugins.len() > MAX_ENTRIES {
            return Err(format!("it lists more than {MAX_ENTRIES} plugins"));
        }
        Ok(index)
    }

    /// The plugins that have every word in their name or summary, those with it in the name first.
    #[must_use]
    pub fn search(&self, words: &[String]) -> Vec<&IndexEntry> {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let named = |entry: &IndexEntry| words.iter().all(|word| entry.name.to_lowercase().contains(word));
        let about = |entry: &IndexEntry| {
            let text = format!("{} {}", entry.name, entry.summary).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let mut found: Vec<&IndexEntry> = self.plugins.iter().filter(|entry| about(entry)).collect();
        found.sort_by_key(|entry| (!named(entry), entry.name.as_str()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Index;

    #[test]
    fn words_are_looked_for_in_names_first() {
        let index = r#"{"plugins": [
            {"name": "a", "summary": "Greets people.", "source": "oci://r.example/a:1"},
            {"name": "greet", "source": "oci://r.example/greet:1"},
            {"name": "other", "source": "oci://r.example/other:1"}]}"#;
        let index = Index::parse(index.as_bytes()).unwrap();
        let names = |words: &[&str]| -> Vec<String> {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            index.search(&words).into_iter().map(|entry| entry.name.clone()).collect()
        };
        assert_eq!(names(&["Greet"]), ["greet", "a"]);
        assert_eq!(names(&["greet", "people"]), ["a"]);
        assert_eq!(names(&[]), ["a", "greet", "other"]);
    }

    #[test]
    fn an_index_of_another_form_is_refused_with_the_form_of_an_index() {
        for text in ["[]", r#"{"plugins": [{"name": "a"}]}"#] {
            let refused = Index::parse(text.as_bytes()).unwrap_err();
            assert!(refused.contains(r#"an index is {"plugins": [{"name": "…", "source": "oci://…""#), "{refused}");
        }
    }
}
