//! The container image as a layout, from the steps of `packaging/Dockerfile`, without a daemon.

use super::{
    Made, Release,
    layout::{Layout, MANIFEST},
    plugins::{Home, said},
    sha256,
    tar::{Owner, ROOT, Tar, gzip},
};
use crate::process::root;
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

/// The part of the image that its user writes.
const USERS_FOLDER: &str = "home/opcell";

/// Writes the image.
pub fn pack(release: &Release) -> Result<Made> {
    let home = Home::new("image")?;
    let files = home.join("root");
    said(Command::new(root().join("packaging/image")).arg("root").arg(release.binary()?).arg(&files))?;
    let dockerfile = fs::read_to_string(root().join("packaging/Dockerfile"))?;
    let config = config(&dockerfile)?;
    let layout = layout(&files, &config, release.version())?;
    let file = release.out.join(format!("opcell-{}-image-x86_64.oci.tar", release.version()));
    fs::write(&file, layout.archive()?)?;
    Ok(Made::Files(vec![file]))
}

/// Returns user, environment and entry point, as the last stage of the Dockerfile has them.
fn config(dockerfile: &str) -> Result<Value> {
    let stage = dockerfile.rsplit_once("\nFROM ").map_or(dockerfile, |(_, stage)| stage);
    let word = |name: &str| {
        let line = stage.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.with_context(|| format!("packaging/Dockerfile has no {name}"))
    };
    let entrypoint: Value = serde_json::from_str(word("ENTRYPOINT")?)?;
    Ok(json!({"User": word("USER")?, "Env": ["PATH=/usr/bin", word("ENV")?], "Entrypoint": entrypoint}))
}

/// Makes the layout of an image with one layer.
fn layout(files: &Path, config: &Value, version: &str) -> Result<Layout> {
    let user = config.get("User").and_then(Value::as_str).and_then(|user| user.split(':').next()?.parse().ok());
    let user = Owner(user.context("expected a number as USER in packaging/Dockerfile")?);
    let mut layer = Tar::default();
    add(&mut layer, files, "", user)?;
    let layer = layer.finish();
    let description = json!({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z", "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
    });
    let mut layout = Layout::default();
    let description = description.to_string().into_bytes();
    let description = layout.add("application/vnd.oci.image.config.v1+json", description);
    let layer = layout.add("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer)?);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": description, "layers": [layer],
        "annotations": {"org.opencontainers.image.title": "opcell", "org.opencontainers.image.version": version},
    });
    layout.add_manifest(manifest.to_string().into_bytes(), Some(version))?;
    Ok(layout)
}

/// Adds a folder and everything below it, sorted by name.
fn add(layer: &mut Tar, folder: &Path, name: &str, user: Owner) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let file = entry.file_name();
        let file = file.to_str().with_context(|| format!("{} is not UTF-8", entry.path().display()))?;
        let inner = if name.is_empty() { file.to_owned() } else { format!("{name}/{file}") };
        if entry.file_type()?.is_dir() {
            let mode = entry.metadata()?.permissions().mode() & 0o7777;
            layer.folder(&inner, mode, if inner == USERS_FOLDER { user } else { ROOT })?;
            add(layer, &entry.path(), &inner, user)?;
        } else {
            layer.copy(&inner, &entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_the_user_and_the_entry_point_of_the_dockerfile() {
        let dockerfile = fs::read_to_string(root().join("packaging/Dockerfile")).unwrap();
        let config = config(&dockerfile).unwrap();
        let expected = json!({
            "User": "65532:65532", "Env": ["PATH=/usr/bin", "HOME=/home/opcell"], "Entrypoint": ["/usr/bin/opcell"],
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn the_layer_gives_the_users_folder_to_the_user_and_everything_else_to_root() {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("root");
        fs::create_dir_all(files.join(USERS_FOLDER)).unwrap();
        fs::set_permissions(files.join(USERS_FOLDER), fs::Permissions::from_mode(0o700)).unwrap();
        fs::create_dir(files.join("usr")).unwrap();
        fs::write(files.join("usr/opcell"), "").unwrap();
        let mut layer = Tar::default();
        add(&mut layer, &files, "", Owner(65532)).unwrap();
        fs::write(folder.path().join("layer.tar"), layer.finish()).unwrap();
        let mut list = Command::new("tar");
        let listed = said(list.args(["--numeric-owner", "-tvf", "layer.tar"]).current_dir(folder.path())).unwrap();
        let owner = |name: &str| {
            let line = listed.lines().find(|line| line.ends_with(name)).unwrap();
            line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(owner(" home/opcell/"), ["drwx------", "65532/65532"]);
        assert_eq!(owner(" usr/opcell"), ["-rw-r--r--", "0/0"]);
    }
}
