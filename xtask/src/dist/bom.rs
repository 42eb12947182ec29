//! The bill of materials: the crates that are linked into what is packed, as CycloneDX 1.5.
//!
//! It is made from `cargo metadata`, for one target, along the dependencies of the packed crates that are neither for builds nor for
//! tests. The SQLite that the program bundles is no crate, so it is a component of its own. There is no time and no random
//! number in it: the same source gives the same bytes.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The crates that are packed.
pub const PACKED: [&str; 3] = ["litefoot-cli", "litefoot-extension", "litefoot-static"];

/// The bill of what `metadata` says, with the version of the bundled SQLite.
pub fn bill(metadata: &Value, version: &str, sqlite: &str) -> Value {
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
    let linked = linked(metadata);
    let mut components: Vec<Value> =
        linked.iter().filter_map(|id| packages.get(id)).map(|package| component(package)).collect();
    components.push(json!({
        "type": "library", "bom-ref": format!("pkg:generic/sqlite@{sqlite}"), "name": "sqlite", "version": sqlite,
        "purl": format!("pkg:generic/sqlite@{sqlite}"),
        "licenses": [{"license": {"id": "blessing"}}],
    }));
    components.sort_by_key(|component| text(&component["bom-ref"]).to_owned());
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application", "bom-ref": "litefoot", "name": "litefoot", "version": version,
            "licenses": [{"expression": "Apache-2.0 OR MIT"}],
        }},
        "components": components,
    })
}

/// One crate.
fn component(package: &Value) -> Value {
    let purl = format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]));
    // Old manifests separate alternatives by a slash.
    let licence = text(&package["license"]).replace('/', " OR ");
    json!({
        "type": "library", "bom-ref": purl, "name": package["name"], "version": package["version"], "purl": purl,
        "licenses": [{"expression": licence}],
    })
}

/// The packages that are linked, the packed ones included.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
    let is_packed = |package: &&Value| PACKED.contains(&text(&package["name"]));
    let mut open: Vec<&str> =
        list(&metadata["packages"]).filter(is_packed).map(|package| text(&package["id"])).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            let dependencies = nodes.get(id).into_iter().flat_map(|node| list(&node["deps"]));
            let linked =
                dependencies.filter(|one| list(&one["dep_kinds"]).any(|kind| kind["kind"].is_null()));
            open.extend(linked.map(|one| text(&one["pkg"])));
        }
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_only_builds_or_tests_is_not() {
        let package =
            |name: &str| json!({"id": name, "name": name, "version": "1.0", "license": "MIT/Apache-2.0"});
        let needs = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": (["litefoot-cli", "deep", "near", "builds", "tests", "alone"].map(package)),
            "resolve": {"nodes": [
                {"id": "litefoot-cli", "deps": [needs("near", json!(null)), needs("builds", json!("build")), needs("tests", json!("dev"))]},
                {"id": "near", "deps": [needs("deep", json!(null))]},
                {"id": "builds", "deps": [needs("alone", json!(null))]},
            ]},
        });
        let bill = bill(&metadata, "1.2.3", "3.99.0");
        let names: Vec<_> = list(&bill["components"]).map(|one| text(&one["name"])).collect();
        assert_eq!(names, ["deep", "litefoot-cli", "near", "sqlite"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["metadata"]["component"]["version"], "1.2.3");
    }
}
