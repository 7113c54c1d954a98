"""What a person sees on the page of a run while its model answers, in Debian's Chromium: live.py CHROMIUM URL PROVIDER."""

import json
import sys
import urllib.request
from playwright.sync_api import expect, sync_playwright

chromium, url, provider = sys.argv[1:]


def start(run):
    body = json.dumps({"workflow": "talk", "run": run}).encode()
    request = urllib.request.Request(f"{url}/v1/default/runs", body, {"content-type": "application/json"})
    urllib.request.urlopen(request).read()


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    page = browser.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))

    # Whoever comes while a model answers sees what it has said so far.
    start("told")
    page.goto(f"{url}/t/default/runs/told")
    page.evaluate("window.mark = 1")
    answers = page.locator("#answers")
    text = answers.locator("div pre")
    expect(text).to_have_text("half <img src=x onerror=\"document.title='taken'\"> an answer")
    # Its reasoning is folded, and there.
    expect(answers.locator("details summary")).to_have_text("reasoning")
    assert not answers.locator("details").evaluate("of => of.open"), "reasoning is open"
    expect(answers.locator("details pre")).to_have_text("hm, so")
    # While it waits, the page is not asked for again and again.
    urllib.request.urlopen(f"{provider}/more").read()
    # The answer is in the conversation then, and no longer below it.
    expect(answers.locator("section")).to_have_count(0)
    expect(page.locator(".status")).to_have_text("completed")
    expect(page.locator("#main")).to_contain_text("an answer, and the rest")
    assert page.evaluate("window.mark") == 1, "the page was loaded anew"
    assert page.title().find("taken") < 0, "it ran what a model said"

    # A run that is cancelled ends its answer on the page as well, and keeps what came of it.
    start("stopped")
    page.goto(f"{url}/t/default/runs/stopped")
    expect(text).to_contain_text("half")
    body = json.dumps({"reason": "enough"}).encode()
    request = urllib.request.Request(f"{url}/v1/default/runs/stopped/cancel", body, {"content-type": "application/json"})
    urllib.request.urlopen(request).read()
    expect(answers.locator("section")).to_have_count(0)
    expect(page.locator(".status")).to_have_text("cancelled")

    assert not complaints, complaints
    browser.close()
print("done")
