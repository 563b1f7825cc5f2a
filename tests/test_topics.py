"""Questions of readers, in several wordings: ``armscope help`` and the search of the page Help answer each."""

from __future__ import annotations

import pytest

from core import guide
from tests.doors.conftest import Shell, document, error, shell

__all__ = ["shell"]

QUESTIONS: dict[tuple[str, str], str] = {
    # An agent
    ("python", "When the server is away"): (
        "what happens to my agent when the server is away; "
        "what happens to my agent when the database is away?; server down; Timeouts; fail-open; "
        "my agent hangs; is the agent blocked if armscope is unavailable; outages; outcome dropped; "
        "outcome rejected; run.outcome; rejected runs"
    ),
    ("python", "Thumbs up and thumbs down"): (
        "thumbs-up; thumbs up; thumbsup; what is a thumb; What a thumbs-up is; user feedback; likes; "
        "thumbs-down"
    ),
    ("python", "Agent frameworks"): "frameworks; agent framework; CrewAI",
    ("langgraph", "LangGraph"): "LangGraph; langgraph example; lang graph",
    ("langchain", "LangChain"): "LangChain; lang chain; langchain middleware",
    ("openai-agents", "OpenAI Agents SDK"): (
        "OpenAI Agents; an example for the OpenAI Agents SDK; openai-agents"
    ),
    ("pydantic-ai", "pydantic-ai"): "pydantic-ai; PydanticAI; pydantic ai",
    ("data", "Notebooks and data frames"): (
        "pandas; notebooks; Jupyter notebook; dataframe; data frames; pandas and notebooks"
    ),
    ("prune", "Take out and put back"): "prune; take out; take out skills; disable a plugin",
    ("prune", "Put back"): "put back; undo a prune; bring back a skill; restore settings",
    ("prune", "What can be switched"): "what can be switched; enabledPlugins; config.toml",
    ("prune", "What an edit touches"): "symbolic link; managed settings",
    ("python", "Serverless functions"): "serverless; AWS Lambda; cloud functions; cold starts",
    ("python", "Choose, run, record"): "I have an agent; my agent; connect my agent; recording runs",
    # Learning
    ("settings", "How long until a tool is dropped"): (
        "how long until it drops tools; When does it drop a tool?; nothing is dropped; "
        "how long until it learns; warm-up; exploration"
    ),
    ("settings", "Settings"): "settings; setting; Settings; change a setting; configuration of a learner",
    ("settings", "baseline_rate"): "baseline rate; baseline_rate; baseline-rate; Baseline Rate",
    ("settings", "min_pulls"): "min_pulls; min pulls",
    ("settings", "k"): "k",
    ("savings", "Detection"): (
        "when a tool counts as used; when does a tool count as used; tool used; detectors; "
        "How are references detected?"
    ),
    ("savings", "Pulls"): "pull; pulls",
    ("savings", "Offers"): "offer; offers",
    ("savings", "Money"): "cost; what does it cost; how much does it cost",
    ("savings", "Holds"): "prompt caching; prompt cache",
    ("glossary", "arm"): "arm; what is an arm",
    ("glossary", "layer"): "layer; layers",
    ("glossary", "execution"): "execution; executions",
    ("glossary", "seed"): "seed",
    ("glossary", "Glossary"): "glossary; terms; definitions",
    # Data
    ("import", "Find and follow"): "importing Claude Code sessions; import Claude Code sessions",
    ("import", "What a machine carries"): "what do I carry; what do I use; unused skills; unused tools",
    ("import", "What can be read"): "formats; file format; which formats",
    ("import", "Exports"): "csv; exports; download my data",
    ("import", "Reward tables"): (
        "reward csv; excel; csv of rewards; many rewards; german excel; decimal comma; xlsx"
    ),
    ("import", "OpenTelemetry"): (
        "OTLP; sending OTLP; open telemetry; opentelemetry; OTLP learner; "
        "which learner do OTLP traces go to; Which learner OTLP traces go to; service.name; collector"
    ),
    ("environments", "Sessions of the OpenReward Standard"): (
        "ORS; OpenReward; OpenReward and ORS recording; record_episodes"
    ),
    ("data", "SQL views"): "SQL; sql view; Metabase",
    ("promises", "Undo"): "how do I undo; take it back; mistakes; revert",
    ("promises", "Once, and for good"): "idempotency; idempotent; Idempotency-Key; duplicate requests",
    ("promises", "Erasure"): "GDPR; delete data; erasure",
    ("does-it-help", "Does it help?"): "does my skill help; does this skill help; does it help",
    # Clients
    ("proxy", "MCP proxy"): "MCP proxy; mcp proxy",
    ("claude-code", "Claude Code"): "Claude Code",
    ("claude-code", "Start a session"): "skillOverrides; armscope with claude; choose skills",
    ("claude-code", "Import each session"): "hook install; SessionEnd",
    ("mcp", "Configure a client"): "MCP configuration; configure mcp; mcp config; Claude Desktop; mcp.json",
    ("openclaw", "Chat bridges"): "chat bridge; chat-bridges; Slack",
    # A team
    ("people", "Tokens"): "tokens and scopes; API keys; scopes",
    ("people", "Sign-in"): "sign-in; sign in; SSO; login; OIDC; single sign-on with Google",
    ("people", "Below a path"): "sub-path; subpath; sub path; base path; path prefix",
    ("team", "Run it for a team"): "I run it for a team; production; self-hosting; deploying; run for a team",
    ("team", "Files"): "templates",
    ("team", "Container"): "container; containers; Docker; Dockerfile; Podman; k8s",
    ("team", "Compose"): "docker compose; docker-compose; compose file",
    ("team", "systemd"): "systemd; systemd unit; daemon; unit file",
    ("team", "Behind a balancer"): (
        "ingress; api behind nginx; balancer; load-balancer; load balancers; sticky sessions; "
        "sticky session; session affinity; two servers; nginx; HAProxy"
    ),
    ("team", "Inside another page"): "iframe; embed; embedding; can the board be embedded?; framing",
    ("team", "Health"): "liveness; readiness; health check; livez; /healthz; probes",
    ("team", "Prometheus and Grafana"): "Grafana; grafana board; Grafana dashboard; Prometheus; alert rules",
    ("operations", "Log"): "log format; log-format; logs; logging; JSON logs; Which form has a log line?",
    ("team", "Connections"): "connections; number of connections; connections per process; max_connections",
    ("team", "Memory"): "memory per user; RAM; how much memory does it need",
    ("team", "Retention"): (
        "retention; old runs; how long are runs kept; delete old runs; Data retention; disk usage; "
        "does the database grow for ever"
    ),
    ("alerts", "Alerts"): "alerting; notifications",
    ("operations", "Backups"): "backup and restore; backups; disaster recovery",
    ("operations", "PostgreSQL"): "PostgreSQL; postgres; Postgresql",
    ("variables", "Environment variables"): "environment variables; environment variable; env; ENV",
    ("variables", "ARMSCOPE_RATE"): "ARMSCOPE_RATE; armscope_rate",
    ("start", "Platforms and licence"): "Windows; macOS; windows and macos; licence; license; mac",
    ("errors", "store_unsure"): "store_unsure",
}
"""Topic and title of a section or row → questions that it answers, parted by semicolons."""


@pytest.mark.parametrize("place", QUESTIONS, ids="-".join)
def test_a_question_finds_its_answer(place: tuple[str, str]) -> None:
    for words in QUESTIONS[place].split("; "):
        first = guide.search(words)[0]
        assert first.is_answer, words
        assert (first.section.topic, first.section.title) == place, words


@pytest.mark.parametrize("place", QUESTIONS, ids="-".join)
def test_the_command_answers_with_it(shell: Shell, place: tuple[str, str]) -> None:
    """A name of a topic or of a command takes precedence."""
    for words in QUESTIONS[place].split("; "):
        answer = document(shell("help", *words.split(), "--json"))
        if "section" in answer:
            assert (answer["topic"], answer["section"]) == place, words
        else:
            assert words.casefold() in {answer.get("topic"), answer.get("command")}, words
        assert len(answer["text"]) > 40


def test_the_command_names_more_that_can_be_printed(shell: Shell) -> None:
    for words in ("standby", "arm", "reward"):
        more = document(shell("help", words, "--json"))["more"]
        for line in more:
            program, help_, *path = line.split()
            assert (program, help_) == ("armscope", "help")
            assert shell("help", *path)[0] == 0, line
        out = shell("help", words)[1]
        assert all(f"  {line}" in out.splitlines() for line in more)
    assert more, "help of a command names sections about it"


def test_what_is_near_is_listed(shell: Shell) -> None:
    for typed, near in (
        ("setings", "armscope help settings"),
        ("stanby", "armscope help operations standby"),
    ):
        assert near in error(shell("help", typed, "--json"), 1, "not_found")["next"]
    assert "near" not in error(shell("help", "xyzzy", "--json"), 1, "not_found")["next"].casefold()


def test_words_of_sections_are_not_shown() -> None:
    marks = sum(guide.path_of(topic.name).read_text("utf-8").count("<!-- words:") for topic in guide.topics())
    every = [section for topic in guide.topics() for section in guide.sections(topic.name)]
    assert marks == sum(bool(set(one.words) - {one.topic}) for one in every) > 80
    assert not [one.title for one in every if "<!--" in one.text]


def test_no_word_leads_to_two_sections() -> None:
    every = [section for topic in guide.topics() for section in guide.sections(topic.name)]
    titles = [section.title.casefold() for section in every]
    words = [word.casefold() for one in every for word in {*one.words} - {one.title, one.topic}]
    assert sorted({word for word in words if words.count(word) > 1 or word in titles}) == []
