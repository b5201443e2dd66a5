//! Calls that only users of the library can make.

use omni_client::{Client, Endpoint, SessionClosed, SpeechSettings};

use crate::fake::{Fake, Script, Seen};

#[test]
fn dropping_the_events_ends_the_call_though_the_sender_lives() {
    let fake = Fake::start(Script::default());
    let endpoint = Endpoint::parse(&fake.endpoint()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let say = runtime.block_on(async {
        let client = Client::connect(&endpoint).await.unwrap();
        let (say, mut events) = client.speech(&SpeechSettings::default());
        say.text("A long story.").await.unwrap();
        events.next().await.unwrap();
        say
    });
    fake.until(&Seen::Closed);
    let more = runtime.block_on(say.text("And more."));
    assert_eq!(more, Err(SessionClosed));
}
