//! Events that are missing: before the first, between, after the last, and what a fork leaves out.

use super::fixtures::{make, preview, v2};
use super::state::{db, home};

/// A sequence begins at 0 and `event_sequence` has its last number (1.18.34, next-16350); a fork of next-16350 leaves out what its parent had.
#[test]
fn events_that_are_missing_before_the_first_and_after_the_last() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let asked = |name: &str, schema: &str, forks: &str| {
        let path = dir.path().join(name);
        let conn = make(&path, schema, "wal");
        let events = |id: &str, seqs: &[i64], counter: Option<i64>| {
            for seq in seqs {
                let sql = "insert into event (id, aggregate_id, seq, type, data) values (?1 || ?2, ?1, ?2, 't', '{}')";
                let sql = if schema.contains("created integer NOT NULL, type") {
                    sql.replace("seq, type", "seq, created, type").replace("?2, 't'", "?2, 1, 't'")
                } else {
                    sql.to_owned()
                };
                conn.execute(&sql, (id, seq)).unwrap();
            }
            if let Some(counter) = counter {
                conn.execute("insert into event_sequence values (?1, ?2, null)", (id, counter)).unwrap();
            }
        };
        events("a_whole", &[0, 1, 2], Some(2));
        events("b_head", &[3, 4], Some(4));
        events("c_tail", &[0, 1], Some(4));
        events("d_between", &[0, 2], Some(2));
        events("e_emptied", &[], Some(7));
        events("f_fork", &[0, 18, 19], Some(19));
        events("g_fork_just_made", &[0], Some(17));
        events("h_fork_with_a_gap", &[0, 18, 20], Some(21));
        events("i_uncounted", &[0, 1], None);
        conn.execute_batch(forks).unwrap();
        drop(conn);
        let events = db(home.path(), &path, &["events", "--json"]).json();
        let summary = &events["data"]["events"];
        let gaps: Vec<String> = summary["aggregates"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["missing"] != 0)
            .map(|one| format!("{} {} {} {}", one["id"].as_str().unwrap(), one["missing"], one["missing_head"], one["missing_tail"]))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        assert_eq!(summary["gaps_count"], gaps.len());
        assert_eq!(summary["emptied_count"], 1);
        let audit = db(home.path(), &path, &["audit", "--json"]).json();
        let finding = audit["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "store.event_gap").cloned();
        let finding = finding.map(|finding| {
            let details = finding["evidence"].as_array().unwrap().iter().map(|evidence| evidence["detail"].as_str().unwrap().to_owned());
            (finding["message"].as_str().unwrap().to_owned(), details.collect::<Vec<_>>())
        });
        (gaps, finding.unwrap())
    };
    let fork = |id: &str| {
        let sql =
            "insert into session (id, project_id, slug, directory, title, version, time_created, time_updated, fork_session_id, fork_seq)";
        format!("{sql} values ('{id}', 'p', '', '/tmp', '', '', 1, 1, 'a_whole', 17);")
    };
    let forks = ["f_fork", "g_fork_just_made", "h_fork_with_a_gap"].map(fork).concat();
    let (gaps, (message, details)) = asked("preview.db", &preview(), &forks);
    assert_eq!(gaps, ["b_head 3 3 0", "c_tail 3 0 3", "d_between 1 0 0", "h_fork_with_a_gap 2 0 1"]);
    assert_eq!(message, "events are missing in 5 sessions");
    assert_eq!(
        details,
        [
            "b_head: 3 before 3",
            "c_tail: 3 after 1",
            "d_between: 1 between 0 and 2",
            "h_fork_with_a_gap: 1 between 0 and 20, 1 after 20",
            "1 session in event_sequence has no event"
        ]
    );
    let page = db(home.path(), &dir.path().join("preview.db"), &["events"]).stdout;
    for line in ["gaps in 4", "1 more aggregate in event_sequence has no event", "missing: 3 before 3", "missing: 3 after 1", "a fork"] {
        assert!(page.contains(line), "{line}: {page}");
    }
    // 2.0.x keeps events while it is told to: what it did not keep then is not lost, and how far a fork's parent was it does not say.
    let fork = |id: &str| fork(id).replace("into session ", "into session_v2 ").replace(", fork_seq", "").replace(", 17", "");
    let forks = ["f_fork", "g_fork_just_made", "h_fork_with_a_gap"].map(fork).concat();
    let (gaps, (message, details)) = asked("v2.db", &v2(true), &forks);
    assert_eq!(gaps, ["b_head 3 3 0", "c_tail 3 0 3", "d_between 1 0 0"]);
    assert_eq!((message.as_str(), details), ("events are missing in 1 session", vec!["d_between: 1 between 0 and 2".to_owned()]));
}
