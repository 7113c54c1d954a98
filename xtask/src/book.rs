//! `cargo xtask book`: the pages of `docs/` as one book, whose links all lead somewhere.

use crate::process::root;
use anyhow::{Context as _, Result, bail};
use regex::Regex;
use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

/// The URL of files of the repository that are not pages of the book.
const REPOSITORY: &str = "https://github.com/opcell/opcell/blob/main";

/// Builds the book, lets links to other files of the repository lead there, and checks the rest.
pub fn book(rest: &[String]) -> Result<()> {
    match Command::new("mdbook").arg("build").args(rest).current_dir(root()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("mdbook ended with {status}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("mdbook is not installed; `cargo install --locked mdbook` installs it")
        }
        Err(error) => return Err(error.into()),
    }
    let book = root().join("target/book");
    let (mut broken, mut open) = (Vec::new(), vec![book.clone()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|kind| kind == "html") {
                let text = fs::read_to_string(&path)?;
                let page = path.strip_prefix(&book).context("a page outside of the book")?;
                let (mended, dead) = mended(&text, page, &book)?;
                broken.extend(dead.into_iter().map(|link| format!("{}: {link}", page.display())));
                if mended != text {
                    fs::write(&path, mended)?;
                }
            }
        }
    }
    if !broken.is_empty() {
        bail!("these links of the book lead nowhere:\n{}", broken.join("\n"));
    }
    eprintln!("{}", book.join("index.html").display());
    Ok(())
}

/// A page with links to files of the repository, and the links that lead nowhere.
fn mended(text: &str, page: &Path, book: &Path) -> Result<(String, Vec<String>)> {
    let link = Regex::new(r#"\b(href|src)="([^"?]+?)(#[^"]*)?""#)?;
    let mut dead = Vec::new();
    let mended = link.replace_all(text, |found: &regex::Captures<'_>| {
        let (name, target, part) = (&found[1], &found[2], found.get(3).map_or("", |part| part.as_str()));
        let is_elsewhere = target.is_empty() || target.contains(':') || target.starts_with('#');
        if is_elsewhere || page.ends_with("404.html") {
            return found[0].to_owned();
        }
        // As seen from `docs`, where the page's source is.
        let folder = page.parent().unwrap_or(Path::new(""));
        let place = normal(&Path::new("docs").join(folder).join(target));
        if let Ok(own) = place.strip_prefix("docs")
            && own != Path::new("SUMMARY.html")
        {
            if !book.join(own).exists() {
                dead.push(target.to_owned());
            }
            return found[0].to_owned();
        }
        let source = place.with_extension("md");
        let file = if root().join(&source).is_file() { source } else { place };
        if !root().join(&file).exists() {
            dead.push(target.to_owned());
        }
        format!("{name}=\"{REPOSITORY}/{}{part}\"", file.display())
    });
    Ok((mended.into_owned(), dead))
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_lead_to_the_repository_and_dead_ones_are_found() {
        let book = tempfile::tempdir().unwrap();
        fs::write(book.path().join("a.html"), "").unwrap();
        let page = r##"<a href="a.html#x"> <a href="../SECURITY.html"> <a href="../../README.html#y"> <a href="none.html"> <a href="https://x">"##;
        let (at_top, dead) = mended(page, Path::new("b.html"), book.path()).unwrap();
        assert!(at_top.contains(r#"href="https://github.com/opcell/opcell/blob/main/SECURITY.md""#), "{at_top}");
        assert!(at_top.contains(r##"href="a.html#x""##) && at_top.contains(r#"href="https://x""#), "{at_top}");
        assert_eq!(dead, ["none.html"]);
        let (below, _) = mended(page, Path::new("comparison/b.html"), book.path()).unwrap();
        assert!(below.contains(r##"href="https://github.com/opcell/opcell/blob/main/README.md#y""##), "{below}");
    }
}
