//! Operator's view of the server, always the same, and the requests that operators make.

use std::pin::Pin;
use std::time::Duration;

use omni_proto::v1;
use omni_proto::v1::admin_service_server::AdminService;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::{Seen, Service};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Looks before the server ends.
const LOOKS: usize = 3;

fn wire(time: Duration) -> Option<omni_proto::Duration> {
    time.try_into().ok()
}

fn replica(id: &str, state: v1::ReplicaState) -> v1::Replica {
    v1::Replica {
        id: id.into(),
        device: "cpu".into(),
        state: state.into(),
        in_flight: 2,
        running: 1,
        kv_cache_usage_ratio: 0.25,
        steps: 1_000,
        busy: wire(Duration::from_secs(61)),
        ..Default::default()
    }
}

fn stats() -> v1::WatchStatsResponse {
    let session = v1::SessionStats {
        session_id: "00ff".into(),
        method: "SpeechService/Speak".into(),
        peer: "192.0.2.7".to_owned(),
        principal: "backend".into(),
        age: wire(Duration::from_secs(5)),
        active: true,
        requests: 1,
        audio_sent: wire(Duration::from_millis(2_500)),
        playback_lead: Some(omni_proto::Duration {
            seconds: 0,
            nanos: -250_000_000,
        }),
    };
    v1::WatchStatsResponse {
        stages: vec![v1::Stage {
            name: "talker".into(),
            replicas: vec![
                replica("0", v1::ReplicaState::Ready),
                replica("1", v1::ReplicaState::Cordoned),
            ],
            threads_left_behind: 0,
        }],
        sessions: 1,
        running: 1,
        expected_wait: wire(Duration::ZERO),
        refused: 4,
        first_packet: Some(v1::Percentiles {
            count: 9,
            p50: wire(Duration::from_millis(40)),
            p95: wire(Duration::from_millis(70)),
            p99: wire(Duration::from_millis(90)),
        }),
        requests_per_second: 0.5,
        audio_seconds_per_second: 1.5,
        continuity_ratio: Some(1.0),
        session_stats: vec![session],
        ..Default::default()
    }
}

#[tonic::async_trait]
impl AdminService for Service {
    type WatchStatsStream = Answers<v1::WatchStatsResponse>;
    type DrainStream = Answers<v1::DrainResponse>;

    async fn get_server_info(
        &self,
        _: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        Ok(Response::new(v1::GetServerInfoResponse {
            version: "9.9.9".into(),
            models: vec!["fake-model".into()],
            listen_address: "192.0.2.1:1".into(),
            max_sessions: 256,
            max_active: 64,
            max_waiting: 128,
            ..Default::default()
        }))
    }

    async fn list_stages(
        &self,
        _: Request<v1::ListStagesRequest>,
    ) -> Result<Response<v1::ListStagesResponse>, Status> {
        let stages = stats().stages;
        Ok(Response::new(v1::ListStagesResponse { stages }))
    }

    async fn watch_stats(
        &self,
        _: Request<v1::WatchStatsRequest>,
    ) -> Result<Response<Self::WatchStatsStream>, Status> {
        let looks = tokio_stream::iter(std::iter::repeat_with(|| Ok(stats())).take(LOOKS));
        Ok(Response::new(Box::pin(looks)))
    }

    async fn cancel_session(
        &self,
        request: Request<v1::CancelSessionRequest>,
    ) -> Result<Response<v1::CancelSessionResponse>, Status> {
        let request = request.into_inner();
        if request.session_id != "00ff" {
            return Err(Status::not_found("there is no such session"));
        }
        let _ = self
            .seen
            .send(Seen::Steered(format!("cancel {}", request.reason)));
        Ok(Response::new(v1::CancelSessionResponse {}))
    }

    async fn set_replica_state(
        &self,
        request: Request<v1::SetReplicaStateRequest>,
    ) -> Result<Response<v1::SetReplicaStateResponse>, Status> {
        let request = request.into_inner();
        let state = request.state();
        let told = format!("{} {} {}", request.stage, request.replica, state.as_str_name());
        let _ = self.seen.send(Seen::Steered(told));
        let replica = Some(replica(&request.replica, state));
        Ok(Response::new(v1::SetReplicaStateResponse { replica }))
    }

    async fn add_replica(
        &self,
        request: Request<v1::AddReplicaRequest>,
    ) -> Result<Response<v1::AddReplicaResponse>, Status> {
        let _ = self
            .seen
            .send(Seen::Steered(format!("add {}", request.get_ref().stage)));
        let replica = Some(replica("2", v1::ReplicaState::Loading));
        Ok(Response::new(v1::AddReplicaResponse { replica }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<Self::DrainStream>, Status> {
        let timeout = request.get_ref().timeout.map_or(0, |timeout| timeout.seconds);
        let _ = self.seen.send(Seen::Steered(format!("drain {timeout}")));
        let told = [2, 1, 0].map(|sessions| {
            Ok(v1::DrainResponse {
                sessions,
                time_left: wire(Duration::from_secs(30)),
            })
        });
        Ok(Response::new(Box::pin(tokio_stream::iter(told))))
    }
}
