//! What a person types, and the catalogue that she writes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::env::{Catalog, Reference};

fuzz_target!(|text: &str| {
    if let Ok(reference) = text.parse::<Reference>() {
        assert_eq!(reference.to_string().parse::<Reference>().expect("it can be typed again"), reference);
    }
    let _ = Catalog::parse(text);
});
