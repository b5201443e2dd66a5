//! `WatchService`: callers' view of the server at work.
//!
//! In: requests of pages. Out: figures as operators see them, without sessions, and the courses of requests that
//! ended. Nothing here changes anything.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use omni_core::drain::ShutdownError;
use omni_core::error::ServeError;
use omni_proto::v1;
use omni_proto::v1::admin_service_server::AdminService as _;
use omni_proto::v1::watch_service_server::WatchService;
use omni_services::settings::invalid;
use omni_session::{Course, Courses, EndedRequest, StageFigures, Timings, TurnRecord, UtteranceRecord};
use tonic::{Request, Response, Status};

use super::admin::{Admin, AdminState, Answers};
use super::outcome::wire;
use super::status::status;

/// The service.
#[derive(Debug)]
pub struct Watch {
    /// Answers `WatchStats`; its other methods are not offered.
    admin: Admin,
    state: AdminState,
    courses: Arc<Courses>,
}

impl Watch {
    /// Shows these.
    pub fn new(state: AdminState, courses: Arc<Courses>) -> Self {
        Self {
            admin: Admin::new(state.clone()),
            state,
            courses,
        }
    }
}

#[tonic::async_trait]
impl WatchService for Watch {
    type WatchStatsStream = Answers<v1::WatchStatsResponse>;
    type WatchRequestsStream = Answers<v1::WatchRequestsResponse>;

    async fn watch_stats(
        &self,
        request: Request<v1::WatchStatsRequest>,
    ) -> Result<Response<Self::WatchStatsStream>, Status> {
        if request.get_ref().include_sessions {
            let problem = "is set, sessions are listed by AdminService alone (--admin-listen)";
            return Err(status(&invalid("include_sessions", problem)));
        }
        self.admin.watch_stats(request).await
    }

    async fn watch_requests(
        &self,
        request: Request<v1::WatchRequestsRequest>,
    ) -> Result<Response<Self::WatchRequestsStream>, Status> {
        let place = self.admin.watch().map_err(|error| status(&error))?;
        let mut last = self.courses.last();
        let newest = *last.borrow_and_update();
        let first = request
            .get_ref()
            .last
            .map_or(0, |count| newest.saturating_sub(count.into()));
        let begun = self.courses.after(first);
        let seen = begun.last().map_or(newest, |course| course.number);
        let begun = stream::iter([Ok(told(&begun))]);
        let courses = Arc::clone(&self.courses);
        let news = stream::unfold((last, seen), move |(mut last, seen)| {
            let courses = Arc::clone(&courses);
            let _held = &place;
            async move {
                last.wait_for(|number| *number > seen).await.ok()?;
                let news = courses.after(seen);
                let seen = news.last().map_or(seen, |course| course.number);
                Some((Ok(told(&news)), (last, seen)))
            }
        });
        let end = stream::iter([Err(status(&ShutdownError::Stopped.into()))]);
        let close = self.state.close.clone().cancelled_owned();
        let answers = begun.chain(news).take_until(close).chain(end);
        Ok(Response::new(Box::pin(answers)))
    }
}

fn told(courses: &[Arc<Course>]) -> v1::WatchRequestsResponse {
    v1::WatchRequestsResponse {
        requests: courses.iter().map(|course| message(course)).collect(),
    }
}

fn message(course: &Course) -> v1::RequestCourse {
    let told = match &course.request {
        EndedRequest::Utterance(record) => utterance(record),
        EndedRequest::Turn(record) => turn(record),
    };
    v1::RequestCourse {
        number: course.number,
        ended: Some(course.ended.into()),
        ..told
    }
}

fn utterance(record: &UtteranceRecord) -> v1::RequestCourse {
    let timings = &record.timings;
    let admitted = timings.ready.zip(timings.wait).map(|(ready, wait)| ready + wait);
    v1::RequestCourse {
        session_id: record.session.to_string(),
        request_id: record.utterance.to_string(),
        voice: record.voice.clone(),
        outcome: record.outcome.name().to_owned(),
        error_reason: reason(record.error.as_ref()),
        ready: optional(timings.ready),
        admitted: optional(admitted),
        stages: timings.stages.iter().map(stage).collect(),
        audio: wire(record.usage.audio),
        total: wire(timings.total),
        real_time_factor: timings.real_time_factor,
        ..spoken(timings)
    }
}

fn turn(record: &TurnRecord) -> v1::RequestCourse {
    let timings = &record.timings;
    let speech = timings.speech.as_ref();
    let spoken_by = speech.into_iter().flat_map(|speech| &speech.stages);
    let stages = timings.encoder.iter().chain([&timings.answer]).chain(spoken_by);
    v1::RequestCourse {
        session_id: record.session.to_string(),
        request_id: record.response.to_string(),
        answer: true,
        voice: record.voice.clone(),
        outcome: record.outcome.name().to_owned(),
        error_reason: reason(record.error.as_ref()),
        ready: wire(Duration::ZERO),
        admitted: optional(timings.admitted.or(timings.submitted)),
        stages: stages.map(stage).collect(),
        first_text: optional(timings.first_text),
        audio: wire(record.usage.audio),
        total: wire(timings.total),
        real_time_factor: timings.real_time_factor,
        ..speech.map(spoken).unwrap_or_default()
    }
}

/// The times of the packets of speech.
fn spoken(timings: &Timings) -> v1::RequestCourse {
    let packets = timings.first_audio.is_some();
    v1::RequestCourse {
        first_packet: optional(timings.first_audio),
        longest_gap: optional(packets.then_some(timings.longest_gap)),
        worst_underrun: optional(packets.then_some(timings.worst_underrun)),
        ..v1::RequestCourse::default()
    }
}

fn stage(figures: &StageFigures) -> v1::StageCourse {
    v1::StageCourse {
        stage: figures.stage.to_owned(),
        replica: figures.replica.map(|id| id.to_string()).unwrap_or_default(),
        started: optional(figures.started),
        first_output: optional(figures.first_output),
        last_output: optional(figures.last_output),
        busy: wire(figures.busy),
        starved: figures.starved,
    }
}

fn reason(error: Option<&ServeError>) -> String {
    error.map(|error| error.reason().to_owned()).unwrap_or_default()
}

fn optional(time: Option<Duration>) -> Option<omni_proto::Duration> {
    time.and_then(wire)
}
