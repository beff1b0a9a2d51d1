"""Uses a page of edistats in Chromium, as a person does.
  browser.py small PAGE BANDS BAND PATH    a page of BANDS bands; PATH has blocks in BAND
  browser.py unknown PAGE BAND             a page that lacks the files of BAND
  browser.py large PAGE BANDS              a page on which three bands share a bar
"""
import sys

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service


def check(holds, what):
    if not holds:
        sys.exit(f'browser: FAILED: {what}')


class Page:
    def __init__(self, path):
        options = webdriver.ChromeOptions()
        options.binary_location = '/usr/bin/chromium'
        for argument in ('--headless=new', '--no-sandbox', '--disable-gpu',
                         '--disable-dev-shm-usage', '--window-size=1400,1000'):
            options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)
        self.driver.get('file://' + path)

    def close(self):
        messages = [entry['message'] for entry in self.driver.get_log('browser')]
        self.driver.quit()
        check(not messages, f'the browser complains: {messages}')

    def text(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector).text

    def bars(self):
        return self.driver.find_elements(By.CSS_SELECTOR, '#map .band')

    def bar(self, first, last):
        return self.driver.find_element(By.CSS_SELECTOR, f'[data-bands="{first}-{last}"]')

    def point_at(self, element):
        self.driver.execute_script('arguments[0].scrollIntoView({block: "center"})', element)
        ActionChains(self.driver).move_to_element(element).perform()

    def click(self, element):
        self.point_at(element)
        ActionChains(self.driver).click().perform()

    def press(self, key):
        ActionChains(self.driver).send_keys(key).perform()

    def follow(self, text):
        self.driver.find_element(By.LINK_TEXT, text).click()

    def style(self, selector, name):
        return self.driver.execute_script(
            'return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]',
            selector, name)

    def prefer(self, scheme):
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': scheme}]})

    def colours_of_strip(self):
        pixels = self.driver.execute_script(
            'const c = document.getElementById("strip");'
            'return [...c.getContext("2d").getImageData(0, 9, c.width, 1).data]')
        return {tuple(pixels[i:i + 4]) for i in range(0, len(pixels), 4)}


LIVE, DEAD, UNWRITTEN = (42, 111, 187, 255), (227, 154, 79, 255), (0, 0, 0, 0)


def small(path, bands, band, file):
    page = Page(path)
    check(len(page.bars()) == int(bands), f'{len(page.bars())} bars')
    page.point_at(page.bar(band, band))
    check(page.text('#hover').startswith(f'Band {band} (used): '), page.text('#hover'))

    page.click(page.bar(band, band))
    zoom = page.text('#zoom')
    check(f'Band {band}: used' in zoom, zoom)
    check(file in zoom, f'{file} is not in: {zoom}')
    check('History: ' in zoom and ' dead' in zoom, zoom)
    check(page.colours_of_strip() == {LIVE, DEAD}, 'the strip shows what is live and dead')
    page.point_at(page.driver.find_element(By.ID, 'strip'))
    check(f'Band {band}, block ' in page.text('#hover'), page.text('#hover'))

    page.follow('next')
    check(f'Band {int(band) + 1}: ' in page.text('#zoom'), 'the next band')
    page.press(Keys.ESCAPE)
    check(page.text('#zoom') == '', 'Escape closes it')
    page.click(page.bar(0, 0))
    check('It holds no file data.' in page.text('#zoom'), page.text('#zoom'))

    by_day = page.style('body', 'backgroundColor'), page.style('.paper', 'fill')
    page.prefer('dark')
    by_night = page.style('body', 'backgroundColor'), page.style('.paper', 'fill')
    check(by_day == ('rgb(255, 255, 255)', 'rgb(255, 255, 255)'), by_day)
    check(by_night == ('rgb(22, 24, 27)', 'rgb(22, 24, 27)'), by_night)
    page.close()


def unknown(path, band):
    page = Page(path + f'#band-{band}')
    check(f'--zoom {band}.' in page.text('#zoom'), page.text('#zoom'))
    page.close()


def large(path, bands):
    page = Page(path)
    check(len(page.bars()) == (int(bands) + 2) // 3, f'{len(page.bars())} bars')
    page.click(page.bar(9, 11))
    check(page.text('#zoom').startswith('Bands 9 to 11'), page.text('#zoom'))
    page.follow('10')
    check('Band 10: free' in page.text('#zoom'), page.text('#zoom'))
    page.close()


if __name__ == '__main__':
    {'small': small, 'unknown': unknown, 'large': large}[sys.argv[1]](*sys.argv[2:])
