//! The harness, tried on itself.

use super::look;
use super::{Story, World};

#[test]
fn story_states_are_what_the_story_says() {
    let mut story = need!(Story::new());
    assert_eq!(story.birth_display, "localhost:10.0");
    assert_eq!(story.b.display(), "localhost:11.0");
    let daemon = story.service.process();
    assert_eq!(daemon.var("DISPLAY").as_deref(), Some("localhost:10.0"));
    story.a_disconnects();
    assert!(look::listeners(6010).is_empty());
    need!(story.c_logs_in());
    assert_eq!(story.c.as_ref().map(|c| c.display().to_owned()).as_deref(), Some("localhost:10.0"));
}
