//! `benches/targets.toml`.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    pub load: Load,
    pub ratio: Vec<Ratio>,
    pub start: Vec<Ratio>,
    pub memory: Vec<Memory>,
    pub growth: Vec<Growth>,
    pub size: Size,
    /// Judged by the benches of these names.
    #[allow(dead_code)]
    probe: toml::Table,
    #[allow(dead_code)]
    binary: toml::Table,
    #[allow(dead_code)]
    store: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    pub processes: usize,
    pub holders: usize,
    pub descriptors: usize,
    pub grown: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    pub command: Vec<String>,
    pub than: Vec<String>,
    pub at_most: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub command: Vec<String>,
    pub at_most_mib: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    pub command: Vec<String>,
    pub at_most: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub at_most_mib: f64,
}

impl Targets {
    pub fn read() -> Result<Targets, String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/targets.toml");
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        toml::from_str(&text).map_err(|error| format!("{path}: {error}"))
    }
}
