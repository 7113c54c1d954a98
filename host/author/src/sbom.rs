//! A bill of materials: CycloneDX 1.6 of what a plugin's `Cargo.lock` names.
//!
//! It has no time and no random serial number: the same lock file gives the same bytes.

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct CargoLock {
    #[serde(default)]
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    checksum: Option<String>,
}

/// Returns the bill of materials of a component called `name` in `version`, built with what a `Cargo.lock` names.
///
/// # Errors
/// When the text is not such a file.
pub fn of_cargo_lock(name: &str, version: &str, sha256: &str, lock: &str) -> Result<String, String> {
    let lock: CargoLock = toml_edit::de::from_str(lock).map_err(|error| error.to_string())?;
    let components: Vec<Value> = lock
        .package
        .iter()
        // A package without a source is the plugin itself, or lies beside it.
        .filter(|package| package.source.is_some())
        .map(|package| {
            let purl = format!("pkg:cargo/{}@{}", package.name, package.version);
            let mut component = json!({
                "type": "library", "bom-ref": purl, "name": package.name, "version": package.version, "purl": purl,
            });
            if let (Some(checksum), Value::Object(component)) = (&package.checksum, &mut component) {
                component.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": checksum}]));
            }
            component
        })
        .collect();
    Ok(document(name, version, sha256, &components))
}

/// Returns the bill of materials of a component whose materials are not known.
#[must_use]
pub fn without_materials(name: &str, version: &str, sha256: &str) -> String {
    document(name, version, sha256, &[])
}

fn document(name: &str, version: &str, sha256: &str, components: &[Value]) -> String {
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "name": name, "version": version,
            "hashes": [{"alg": "SHA-256", "content": sha256}],
        }},
        "components": components,
    });
    format!("{document:#}\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_package_from_elsewhere_is_listed_with_its_digest() {
        let lock = "version = 4\n[[package]]\nname = \"greet\"\nversion = \"0.1.0\"\ndependencies = [\"serde\"]\n\
                    [[package]]\nname = \"serde\"\nversion = \"1.0.1\"\nsource = \"registry+https://x\"\nchecksum = \"ab\"\n";
        let text = super::of_cargo_lock("greet", "0.1.0", "cd", lock).unwrap();
        let bom: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bom["components"].as_array().unwrap().len(), 1);
        assert_eq!(bom["components"][0]["purl"], "pkg:cargo/serde@1.0.1");
        assert_eq!(bom["components"][0]["hashes"][0]["content"], "ab");
    }
}
