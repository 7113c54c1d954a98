"""What a person does on the page, in Debian's Chromium: page.py CHROMIUM URL AXE."""

import json
import sys
import urllib.request
from playwright.sync_api import expect, sync_playwright

chromium, url, axe = sys.argv[1:]


def start(run, workflow, **given):
    body = json.dumps({"workflow": workflow, "run": run, "input": given}).encode()
    request = urllib.request.Request(f"{url}/v1/default/runs", body, {"content-type": "application/json"})
    urllib.request.urlopen(request).read()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    context = browser.new_context()
    page = context.new_page()
    complaints, elsewhere = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: request.url.startswith(url) or elsewhere.append(request.url))

    # The list shows what begins, without being loaded again.
    page.goto(f"{url}/t/default")
    page.evaluate("window.mark = 1")
    start("live-1", "ask")
    expect(page.get_by_role("link", name="live-1", exact=True)).to_be_visible()
    assert page.evaluate("window.mark") == 1, "the list was loaded anew"

    # By keyboard alone: the first stop leads past the navigation, and an answer is two stops and a key.
    page.goto(f"{url}/t/default/runs/live-1")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    reason = page.get_by_label("Reason")
    reason.focus()
    page.keyboard.type("it is good")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Approve"
    page.keyboard.press("Enter")
    expect(page.locator(".status")).to_have_text("completed")
    # Who answered, and what.
    expect(page.locator(".answers")).to_contain_text("ship approved: it is good by ")
    # A row opens beside the timeline with a key, and each has an address of its own.
    row = page.locator(".timeline a.row").first
    row.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel").get_by_role("link", name="event 1", exact=True)).to_be_visible()
    assert page.url.endswith("/runs/live-1?row=1#panel"), page.url
    assert page.evaluate("document.activeElement.dataset.row") == "1", "the row has lost the focus"
    page.locator("#panel").get_by_role("link", name="Close").click()
    expect(page.locator("#panel")).to_contain_text("Choose a row")
    page.goto(f"{url}/t/default/runs/live-1#e2")
    assert page.evaluate("document.querySelector(':target').tagName") == "LI"

    # A run that waits is answered elsewhere, and the page says so without losing what is open.
    start("live-2", "ask")
    page.goto(f"{url}/t/default/runs/live-2")
    page.evaluate("window.mark = 1")
    page.locator(".timeline a.row").first.click()
    expect(page.locator("#panel h2")).to_contain_text("ask")
    body = json.dumps({"approved": True}).encode()
    approve = urllib.request.Request(f"{url}/v1/default/runs/live-2/approve", body, {"content-type": "application/json"})
    urllib.request.urlopen(approve).read()
    expect(page.locator(".status")).to_have_text("completed")
    assert page.evaluate("window.mark") == 1, "the page was loaded anew"
    expect(page.locator("#panel .quiet").first).to_contain_text("status completed")
    assert page.locator(".timeline a[aria-current]").count() == 1

    # A fork from any event: the button of a row.
    page.get_by_role("button", name="Fork after this event").first.click()
    expect(page.locator("h1")).not_to_have_text("live-2")

    # A run is started by the form of its workflow, and several are cancelled together after a confirmation.
    page.goto(f"{url}/t/default")
    page.get_by_role("link", name="Workflows", exact=True).click()
    page.get_by_role("link", name="ask", exact=True).click()
    page.get_by_label("ID of the run").fill("form-1")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("h1")).to_have_text("form-1")
    start("form-2", "ask")
    page.goto(f"{url}/t/default?run=form-")
    page.get_by_role("link", name="Cancel or delete several").click()
    assert page.locator("input[name=run]").count() == 2
    page.get_by_label("I am sure").check()
    page.get_by_role("button", name="Cancel the selected runs").click()
    page.wait_for_url(f"{url}/t/default")
    for run in ["form-1", "form-2"]:
        page.goto(f"{url}/t/default/runs/{run}")
        expect(page.locator(".status").first).to_have_text("cancelled")

    # Runs are found by a text in their events, and by the time at which they were started.
    start("found", "greet", name="Zaphod \"Z\" Beeblebrox")
    page.goto(f"{url}/t/default")
    page.get_by_label("Text in its events").fill('zaphod "z"')
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status")).to_contain_text("1 of ")
    assert page.locator(".runs tbody tr").count() == 1
    expect(page.get_by_role("link", name="found", exact=True)).to_be_visible()
    page.goto(f"{url}/t/default")
    page.get_by_label("Started from (UTC)").fill("2100-01-01T00:00")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("No matching runs.")).to_be_visible()
    page.goto(f"{url}/t/default?until=2100-01-01")
    expect(page.get_by_role("link", name="found", exact=True)).to_be_visible()
    # The list says why a run failed.
    expect(page.locator("tr", has_text="form-1").first).to_contain_text("cancelled")
    page.goto(f"{url}/t/default/workers")
    expect(page.get_by_text("(this server)")).to_be_visible()

    # Parts of a long run are pages, each small; the first and the last are one step away.
    page.goto(f"{url}/t/default/runs/many")
    expect(page.locator(".timeline > li")).to_have_count(200)
    page.get_by_role("link", name="Last").click()
    expect(page.get_by_text("each[299]")).to_be_visible()
    page.goto(f"{url}/t/default/compare?a=live-1&b=live-2")
    expect(page.locator("h2")).to_have_count(2)
    assert not complaints, complaints
    assert not elsewhere, elsewhere

    # Narrow, dark and without script.
    dark = browser.new_context(
        color_scheme="dark", viewport={"width": 360, "height": 800}, java_script_enabled=False
    )
    page = dark.new_page()
    start("plain", "ask")
    for path in ["", "/runs/many", "/runs/plain", "/plugins", "/servers", "/triggers", "/workers", "/workflows", "/workflows/greet"]:
        page.goto(f"{url}/t/default{path}")
        box = page.locator("main").bounding_box()
        assert box["x"] >= 0 and box["width"] <= 360, (path, box)
    page.goto(f"{url}/t/default/runs/plain")
    page.screenshot(path="dark.png")
    for _ in range(100):
        page.reload()
        if page.get_by_role("button", name="Approve").count():
            break
    page.get_by_role("button", name="Refuse").click()
    for _ in range(100):
        if page.locator(".status").text_content() == "failed":
            break
        page.reload()
    expect(page.locator(".status")).to_have_text("failed")
    browser.close()

    # No barrier on any page, in either scheme and at both widths.
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    start("waits", "ask")
    paths = ["", "?text=zaphod", "/select", "/runs/live-1?row=1", "/runs/waits", "/runs/plain?row=2", "/runs/many",
             "/runs/many/events", "/compare?a=live-1&b=plain", "/plugins", "/servers", "/triggers", "/workers", "/workflows",
             "/workflows/ask", "/workflows/greet", "/runs/none"]
    for scheme, width in [("light", 1280), ("dark", 360), ("dark", 1280), ("light", 360)]:
        page = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}).new_page()
        for path in paths:
            page.goto(f"{url}/t/default{path}")
            page.evaluate(open(axe).read())
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            barriers = [(of["id"], [node["html"][:200] for node in of["nodes"]]) for of in found["violations"]]
            assert not barriers, (scheme, width, path, barriers)
    browser.close()

    # What the colours of the dark page are.
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for scheme, is_dark in [("dark", True), ("light", False)]:
        page = browser.new_context(color_scheme=scheme).new_page()
        page.goto(f"{url}/t/default")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(colour.split("(")[1].split(",")[0])
        assert (red < 64) == is_dark, (scheme, colour)
    browser.close()
print("done")
