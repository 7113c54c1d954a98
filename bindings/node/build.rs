//! Leaves the tables of symbols out of what the package has: they are several times as large as the code.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-s");
}
