"""A planted server without an SDK, which starts at once: ``python -IS raw_mcp.py NAME``. It has tools on two pages.

Its answers have members that no version of the protocol knows. ``say`` echoes its arguments. ``wait`` answers after
some seconds, out of order. ``ask`` sends a request of its own, and answers with what came. ``die`` ends it.
"""

import json
import os
import sys
import threading
import time
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else "raw"
SCHEMA = {"type": "object", "x-unknown": 1.50}
TOOLS: list[Any] = [
    {"name": name, "description": f"{name} of {NAME}", "inputSchema": SCHEMA, "x-unknown": {"é": [1e3]}}
    for name in ("say", "wait", "ask", "die", f"only_{NAME}", f"other_{NAME}")
]
ODD = [5, None, {}, {"name": ""}, {"name": 7}, {"name": "x" * 600}, {"name": "a\x07"}, TOOLS[0], TOOLS[0]]
"""Tools that no protocol allows, and one twice; the server `odd` has them, and pages without an end."""
if NAME == "near":
    TOOLS[0]["name"] = "env"
if NAME == "odd":
    TOOLS = [*TOOLS, *ODD]
if NAME == "none":
    TOOLS = []
LOCK = threading.Lock()
ASKED: dict[object, object] = {}


def send(message: dict[str, object], **more: object) -> None:
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "x-envelope": NAME} | message | more) + "\n")
        sys.stdout.flush()


def called(number: object, name: str, arguments: dict[str, object]) -> None:
    if name == "die":
        os._exit(3)
    if name == "ask":
        ASKED["q"] = number
        send({"id": "q", "method": "sampling/createMessage", "params": {"of": NAME, "more": arguments}})
        return
    if name == "env":
        values = [os.environ.get("PLANTED_KEY"), os.environ.get("ARMSCOPE_SELECT_S")]
        send({"id": number, "result": {"content": [{"type": "text", "text": json.dumps(values)}]}})
        return
    if name == "wait":
        time.sleep(float(str(arguments["seconds"])))
    if name not in {one["name"] for one in TOOLS[:6]}:
        send({"id": number, "error": {"code": -32602, "message": f"Unknown tool: {name}", "data": {"x": 1}}})
        return
    content = [{"type": "text", "text": json.dumps([NAME, arguments])}]
    send({"id": number, "result": {"content": content, "isError": bool(arguments.get("fail")), "x": 2.0}})


def answer(message: dict[str, Any]) -> None:
    number, method, params = message["id"], str(message.get("method")), message.get("params") or {}
    if "method" not in message:
        send({"id": ASKED[number], "result": {"content": [], "came": message.get("result")}})
    elif method == "tools/call":
        call = (number, str(params["name"]), params.get("arguments", {}))
        threading.Thread(target=called, args=call, daemon=True).start()
    elif method == "tools/list":
        pages = {None: TOOLS[:4], "2": TOOLS[4:]}
        more = {} if params.get("cursor") and NAME != "odd" else {"nextCursor": "2"}
        send({"id": number, "result": {"tools": pages[params.get("cursor")], "_meta": {"x": 1}} | more})
    elif method == "initialize":
        capabilities = {"tools": {}, "resources": {}, "x": {NAME: True}}
        info = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities}
        send({"id": number, "result": info | {"serverInfo": {"name": NAME}, "instructions": f"Use {NAME}."}})
    elif method == "resources/list":
        send({"id": number, "result": {"resources": [{"uri": f"x://{NAME}", "name": NAME}]}})
    elif method in {f"unknown/{NAME}", "unknown/any", "ping"}:
        send({"id": number, "result": {"got": message, "big": 2**70}})
    else:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    for line in sys.stdin:
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            read = None
        if not isinstance(read, dict):
            sys.stdout.write(f"no message: {len(line)}\n")
            sys.stdout.flush()
        elif "id" in read:
            answer(read)
        elif read["method"] not in {"notifications/initialized"}:
            send({"method": "notifications/x", "params": {"of": NAME, "got": read}})


if __name__ == "__main__":
    main()
