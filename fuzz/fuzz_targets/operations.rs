//! Registrations in JavaScript, OpenAPI documents, names of schema changes and of variables, tables of fingerprints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::binary::fingerprints::Table;
use whoseenv::binary::ops::{contract, of_text};
use whoseenv::binary::{delta, migrations};

fuzz_target!(|bytes: &[u8]| {
    let found = of_text(bytes, 1000);
    for operation in &found.found {
        assert!(operation.path.starts_with('/') && operation.offset >= 1000);
        assert!(operation.offset < 1000 + bytes.len() as u64);
    }
    if let Ok(listed) = contract::parse(bytes) {
        let count = listed.len() as u64;
        let compared = contract::compare(String::new(), &found.found, listed);
        assert_eq!(compared.same + compared.changed.len() as u64 + compared.missing.len() as u64, count);
    }
    migrations::names_in(bytes, &mut Default::default());
    delta::names_in(bytes, &mut Default::default());
    let _ = std::str::from_utf8(bytes).map(Table::parse);
});
