//! Many offers on one stream.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_20_000_offers_is_answered_by_correlation_id_also_after_the_caller_is_done() {
    const OFFERS: u64 = 20_000;
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    create(&mut client, "q", "busy").await;
    let (up, offers) = mpsc::channel(16);
    let mut down = client
        .submit_stream(ReceiverStream::new(offers))
        .await
        .expect("a stream")
        .into_inner();
    let send = async move {
        for first in (0..OFFERS).step_by(500) {
            let offers = (first..first + 500).map(stream_offer).collect();
            let message = proto::SubmitStreamRequest { offers };
            up.send(message).await.expect("a stream that takes offers");
        }
        // And this side is closed, with thousands of answers still to come.
    };
    let read = async {
        let mut verdicts: BTreeMap<u64, String> = BTreeMap::new();
        while let Some(message) = down.message().await.expect("a stream without an error") {
            for result in message.results {
                let verdict = verdict(&result.result.expect("a result"));
                let again = verdicts.insert(result.correlation_id, verdict);
                assert_eq!(again, None, "{} was answered twice", result.correlation_id);
            }
        }
        verdicts
    };
    let ((), verdicts) = tokio::join!(send, read);

    assert_eq!(u64::try_from(verdicts.len()), Ok(OFFERS));
    for (id, verdict) in verdicts {
        let expected = match id % 1_000 {
            17 => "InvalidArgument key",
            18 => "AlreadyOutstanding",
            19 => "InvalidArgument submit",
            _ => "Created",
        };
        assert_eq!(verdict, expected, "of offer {id}");
    }
    let request = proto::GetQueueRequest { name: "q".into() };
    let queue = admin(&server)
        .await
        .get_queue(request)
        .await
        .expect("a queue");
    let stats = queue
        .into_inner()
        .queue
        .and_then(|q| q.stats)
        .expect("counts");
    assert_eq!(stats.outstanding, OFFERS / 1_000 * 997 + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_an_offer_ends_when_the_caller_is_done() {
    let (_nats, server) = one_server().await;
    let mut client = client(&server).await;
    let mut down = client
        .submit_stream(tokio_stream::empty())
        .await
        .expect("a stream")
        .into_inner();
    let ended = tokio::time::timeout(SOON, down.message())
        .await
        .expect("an end");
    assert_eq!(ended.expect("a good end"), None);
}

/// One offer of a stream; a few in a thousand are bad, busy or empty.
fn stream_offer(id: u64) -> proto::SubmitOffer {
    let submit = match id % 1_000 {
        17 => Some(submit("q", "", "payload")),
        18 => Some(submit("q", "busy", "payload")),
        19 => None,
        _ => Some(submit("q", &format!("key-{id}"), "payload")),
    };
    proto::SubmitOffer {
        // The caller's choice: also one number for several offers, or the largest one.
        correlation_id: id,
        submit,
    }
}
