//! The operations of a bundle against those of an OpenAPI document.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Operation;

/// An operation of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// Its `operationId`; empty where it has none.
    pub id: String,
    /// `GET`, `POST`, …
    pub method: String,
    /// The path, parameters as `:name`.
    pub path: String,
}

/// An operation that both have, not alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Changed {
    /// As the contract has it.
    pub contract: Listed,
    /// As the bundle registers it.
    pub bundle: Operation,
}

/// A bundle against a contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Where the contract was read.
    pub source: String,
    /// Operations that it lists.
    pub listed: u64,
    /// Operations that both have with the same id, method and path.
    pub same: u64,
    /// In the contract, and not registered by the bundle.
    pub missing: Vec<Listed>,
    /// Registered by the bundle, and not in the contract.
    pub extra: Vec<Operation>,
    /// In both, with another id, or with the same id at another place.
    pub changed: Vec<Changed>,
}

impl Comparison {
    /// Whether the two are alike.
    pub fn is_equal(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty() && self.changed.is_empty()
    }
}

/// The operations of an OpenAPI document.
///
/// # Errors
/// What makes it none, in words.
pub fn parse(text: &[u8]) -> Result<Vec<Listed>, String> {
    const METHODS: [&str; 8] = ["get", "post", "put", "patch", "delete", "head", "options", "trace"];
    let document: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let paths = document.get("paths").and_then(Value::as_object).ok_or("it is no OpenAPI document: it has no `paths`")?;
    let mut listed = Vec::new();
    for (path, item) in paths {
        for method in METHODS {
            let Some(operation) = item.get(method).and_then(Value::as_object) else { continue };
            let id = operation.get("operationId").and_then(Value::as_str).unwrap_or_default().to_owned();
            listed.push(Listed { id, method: method.to_uppercase(), path: path.replace('{', ":").replace('}', "") });
        }
    }
    Ok(listed)
}

/// Compares. A contract may put `v2.` before an id that the bundle has without it; the id that the bundle annotates counts too.
pub fn compare(source: String, bundle: &[Operation], contract: Vec<Listed>) -> Comparison {
    let mut comparison = Comparison { source, listed: contract.len() as u64, ..Comparison::default() };
    let mut extra: Vec<&Operation> = bundle.iter().collect();
    let mut left: Vec<Listed> = Vec::new();
    for listed in contract {
        // A bundle that does not tell the method has the operation at its path.
        let here = |one: &&Operation| one.path == listed.path && one.method.as_ref().is_none_or(|method| *method == listed.method);
        let same = extra.iter().position(|one| here(one) && same_id(&listed.id, one));
        match same.or_else(|| extra.iter().position(here)) {
            Some(at) => {
                let found = extra.remove(at);
                match same {
                    Some(_) => comparison.same += 1,
                    None => comparison.changed.push(Changed { contract: listed, bundle: found.clone() }),
                }
            }
            None => left.push(listed),
        }
    }
    for listed in left {
        match extra.iter().position(|operation| !listed.id.is_empty() && same_id(&listed.id, operation)) {
            Some(at) => comparison.changed.push(Changed { contract: listed, bundle: extra.remove(at).clone() }),
            None => comparison.missing.push(listed),
        }
    }
    comparison.extra = extra.into_iter().cloned().collect();
    comparison
}

fn same_id(listed: &str, operation: &Operation) -> bool {
    let bare = |id: &str| id.strip_prefix("v2.").unwrap_or(id).to_owned();
    let listed = bare(listed);
    listed.is_empty() || listed == bare(&operation.id) || operation.identifier.as_deref().is_some_and(|id| bare(id) == listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(id: &str, method: Option<&str>, path: &str) -> Operation {
        Operation { id: id.to_owned(), identifier: None, method: method.map(str::to_owned), path: path.to_owned(), offset: 0 }
    }

    #[test]
    fn what_is_missing_extra_or_changed_is_told_apart() {
        let contract = br#"{"openapi":"3.1.0","paths":{
            "/a":{"get":{"operationId":"v2.a.get"},"post":{"operationId":"a.post"}},
            "/b/{id}":{"delete":{"operationId":"b.remove"}, "parameters":[]},
            "/c":{"get":{"operationId":"c.get"}}}}"#;
        let bundle = [
            operation("a.get", Some("GET"), "/a"),
            operation("a.other", Some("POST"), "/a"),
            operation("b.remove", Some("DELETE"), "/b2/:id"),
            operation("d.get", Some("GET"), "/d"),
        ];
        let found = compare("x".to_owned(), &bundle, parse(contract).unwrap());
        assert_eq!((found.listed, found.same), (4, 1));
        assert_eq!(found.missing.iter().map(|listed| listed.id.as_str()).collect::<Vec<_>>(), ["c.get"]);
        assert_eq!(found.extra.iter().map(|operation| operation.id.as_str()).collect::<Vec<_>>(), ["d.get"]);
        let changed: Vec<_> = found.changed.iter().map(|changed| (changed.contract.id.as_str(), changed.bundle.path.as_str())).collect();
        assert_eq!(changed, [("a.post", "/a"), ("b.remove", "/b2/:id")]);
    }

    #[test]
    fn a_bundle_without_methods_has_the_operation_at_its_path() {
        let contract = parse(br#"{"paths":{"/api/session/{id}":{"get":{"operationId":"session.get"}}}}"#).unwrap();
        assert!(compare(String::new(), &[operation("session.get", None, "/api/session/:id")], contract).is_equal());
    }

    #[test]
    fn what_is_no_contract_is_refused() {
        assert!(parse(b"<html>").unwrap_err().starts_with("it is not JSON"));
        assert!(parse(b"{}").unwrap_err().contains("no `paths`"));
        assert_eq!(parse(br#"{"paths":{"/x":3}}"#), Ok(Vec::new()));
    }
}
