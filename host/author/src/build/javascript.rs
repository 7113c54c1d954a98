//! JavaScript and TypeScript: esbuild makes one file of the sources and their packages, QuickJS becomes a component
//! with it.
//!
//! The engine runs no promises in a call. esbuild therefore rewrites async functions to functions that use the global
//! `Promise`, which is the SDK's. The file carries a source map, from which the SDK finds the places of errors.

use crate::{
    AuthorError, Project,
    process::{run, run_explained},
    source_map::SourceMap,
    template::{put, write_contract},
    toolchain::on_path,
};
use opcell_types::files::{Folder, Readers, read_text_bounded};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// The program that takes the clock of the machine out of the snapshot of the interpreter.
pub(super) const FAKETIME: &str = "faketime";

/// The moment and the seed of every build under it: any would do, and must stay the same.
const MOMENT: [&str; 2] = ["-f", "2024-01-01 00:00:00"];
const SEED: &str = "0x6F7063656C6C0001";

/// The bundler that a plugin's folder brings along.
pub(super) const ESBUILD: &str = "node_modules/.bin/esbuild";

/// The largest bundle and the largest map that are read.
const MAX_BUNDLE: u64 = 64 << 20;

/// The bundle's name in the folder of scratch files, by which the engine's stacks name it.
const BUNDLE: &str = "bundle.js";

/// The world of the engine: the contract, and the interfaces of which the SDK makes the language's globals.
const WORLD: &str = include_str!("../../wit-javascript/world.wit");
const WASI: [(&str, &str); 3] = [
    ("deps/wasi-random/random.wit", include_str!("../../wit-javascript/random.wit")),
    ("deps/wasi-clocks/clocks.wit", include_str!("../../wit-javascript/clocks.wit")),
    ("deps/wasi-io/io.wit", include_str!("../../wit-javascript/io.wit")),
];
const HANDLES: (&str, &str) = ("deps/opcell-javascript/handles.wit", include_str!("../../wit-javascript/handles.wit"));

/// Modules of Node. Unless a package of the same name is installed, they are what says that a plugin has none.
const NODE: [&str; 40] = [
    "assert",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "dns",
    "dns/promises",
    "events",
    "fs",
    "fs/promises",
    "http",
    "http2",
    "https",
    "inspector",
    "module",
    "net",
    "os",
    "path",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "stream",
    "string_decoder",
    "timers",
    "timers/promises",
    "tls",
    "tty",
    "url",
    "util",
    "v8",
    "vm",
    "worker_threads",
    "zlib",
];

/// One file of all sources.
pub(super) struct Bundle {
    path: PathBuf,
    text: String,
    map: Option<SourceMap>,
}

impl Bundle {
    /// Everything that the component depends on but the tools.
    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// There is no bundler.
pub(super) fn missing_esbuild() -> AuthorError {
    AuthorError::MissingTool {
        language: "JavaScript",
        tool: "esbuild",
        install: "npm install --save-dev esbuild@0.25.12".to_owned(),
    }
}

/// Makes one file of the plugin's main file and everything that it imports.
pub(super) fn bundle(project: &Project, scratch: &Folder) -> Result<Bundle, AuthorError> {
    let own = Some(project.folder.join(ESBUILD)).filter(|path| path.is_file());
    let esbuild = own.or_else(|| on_path("esbuild")).ok_or_else(missing_esbuild)?;
    let source = project.source.to_string_lossy().replace('\\', "/");
    let sdk = project.folder.join("sdk");
    if !sdk.join("missing.cjs").is_file() {
        return Err(AuthorError::Component {
            path: sdk,
            message: "it is the SDK of an older Opcell; `opcell plugin new` makes a folder with the current one"
                .to_owned(),
        });
    }
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let entry = format!(
        "import {{ exported }} from \"../../sdk/opcell.js\";\nimport * as main from {};\n\
         export const {{ operations, judges }} = exported(main, {});\n",
        quoted(&format!("../../{source}")),
        quoted(&source),
    );
    write(scratch, "entry.js", &entry)?;
    let mut command = Command::new(&esbuild);
    command.current_dir(&project.folder).args([
        "target/opcell/entry.js",
        "--bundle",
        "--format=esm",
        "--platform=neutral",
        "--target=es2022",
        "--supported:async-await=false",
        "--supported:async-generator=false",
        "--supported:for-await=false",
        "--supported:top-level-await=false",
        "--supported:dynamic-import=false",
        "--main-fields=browser,module,main",
        "--conditions=browser,import,module",
        "--define:process.env.NODE_ENV=\"production\"",
        "--external:opcell:*",
        "--external:wasi:*",
        "--inject:./sdk/runtime.js",
        "--sourcemap=external",
        "--sources-content=false",
        "--log-level=warning",
        "--charset=utf8",
    ]);
    command.arg(format!("--outfile=target/opcell/{BUNDLE}"));
    for name in NODE {
        let stub = format!("node/{}.cjs", name.replace('/', "-"));
        write(scratch, &stub, &format!("module.exports = require(\"../../../sdk/missing.cjs\")({});\n", quoted(name)))?;
        command.arg(format!("--alias:node:{name}=./target/opcell/{stub}"));
        let package = name.split('/').next().unwrap_or(name);
        if !project.folder.join("node_modules").join(package).is_dir() {
            command.arg(format!("--alias:{name}=./target/opcell/{stub}"));
        }
    }
    run(&mut command)?;
    let path = scratch.path().join(BUNDLE);
    let mut text = read_text_bounded(&path, MAX_BUNDLE).map_err(AuthorError::file(&path))?;
    let map_path = scratch.path().join(format!("{BUNDLE}.map"));
    let map = read_text_bounded(&map_path, MAX_BUNDLE).map_err(AuthorError::file(&map_path))?;
    let map = SourceMap::parse(&map);
    if let Some(map) = &map {
        text.push_str(&format!("globalThis[Symbol.for(\"opcell.source-map\")] = {};\n", map.to_json()));
    }
    write(scratch, BUNDLE, &text)?;
    Ok(Bundle { path, text, map })
}

/// Makes a component of the engine and the bundle.
pub(super) fn componentize(
    project: &Project,
    bundle: &Bundle,
    tool: &Path,
    faketime: Option<&Path>,
    scratch: &Folder,
) -> Result<PathBuf, AuthorError> {
    let (wit, output) = (write_contract(scratch)?, scratch.path().join("plugin.wasm"));
    for (name, text) in WASI.into_iter().chain([HANDLES, ("javascript.wit", WORLD)]) {
        put(scratch, &Path::new("wit").join(name), text.as_bytes())?;
    }
    let mut command = match faketime {
        Some(faketime) => {
            let mut command = Command::new(faketime);
            // The moment is one of the time zone.
            command.env("TZ", "UTC").env("FAKERANDOM_SEED", SEED).args(MOMENT).arg(tool);
            command
        }
        None => Command::new(tool),
    };
    command.current_dir(&project.folder).arg("--wit").arg(wit).args(["--world", "javascript", "--module-root", "."]);
    command.arg("--js").arg(&bundle.path).args(["--sync", "--opt-size", "-o"]).arg(&output);
    run_explained(&mut command, |messages| match &bundle.map {
        Some(map) => map.in_text(messages, BUNDLE),
        None => messages.to_owned(),
    })?;
    Ok(output)
}

fn write(scratch: &Folder, name: &str, text: &str) -> Result<(), AuthorError> {
    // A file that is the same keeps its time, so that nothing is built again because of it.
    let path = scratch.path().join(name);
    if read_text_bounded(&path, MAX_BUNDLE).is_ok_and(|known| known == text) {
        return Ok(());
    }
    match name.split_once('/') {
        Some(_) => put(scratch, Path::new(name), text.as_bytes()),
        None => scratch.replace(name, text.as_bytes(), Readers::Shared).map_err(AuthorError::file(path)),
    }
}
